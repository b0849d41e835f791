// By what jobs are put in order: functions of planned time, size and wait, lowest first. Sources: sjf.cc.
//
// No libm: the same value on every machine.
#pragma once

#include <algorithm>

#include "common/core/fmath.h"

namespace bourse::policy::formula {

constexpr double kLn2 = 0.693147180559945309417, kLn10 = 2.302585092994045684018;
constexpr double kF1Submit = 870, kLeast = 0.1;  // kLeast: in place of a time of 0 seconds

struct Facts {
  double r = 1, p = 1, w = 0, s = 0;  // seconds planned, processors, seconds waited, second of submission
};

inline double fifo(const Facts& f) { return f.s; }
inline double sjf(const Facts& f) { return f.r; }
inline double saf(const Facts& f) { return f.r * f.p; }
inline double f1(const Facts& f) { return fmath::log(f.r) / kLn10 * f.p + kF1Submit * (fmath::log(f.s) / kLn10); }
inline double wfp3(const Facts& f) {
  const double x = f.w / f.r;
  return -(x * x * x * f.p);
}
inline double unicep(const Facts& f) { return -(f.w / (fmath::log(std::max(f.p, 2.0)) / kLn2 * f.r)); }
inline double xf(const Facts& f) { return -((f.w + f.r) / f.r); }

}  // namespace bourse::policy::formula
