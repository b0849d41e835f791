// Deterministic exp, log, pow and sqrt: the same bits on every machine, compiler and C library.
//
// The C library picks variants of its transcendental functions by CPU, and their last bits differ; a score or share computed
// with them would break "same seed, same trace". These use only IEEE 754 additions, multiplications, divisions and square
// roots (each exactly rounded by the standard) in a fixed order, and need -ffp-contract=off. See "Determinism".
//
// Relative error, against the true value, where neither argument nor result is subnormal:
//   exp, log  at most 4 * 2^-53 (log: of |log x| or, near 1, of |x - 1|)
//   pow       at most (8 + 4 |y ln x|) * 2^-53
//   sqrt      exactly rounded
// Special values follow C's Annex F where a NaN or infinity goes in or comes out. Results below DBL_MIN are 0.
#pragma once

namespace bourse::fmath {

double exp(double x);
double log(double x);            // natural; -inf for 0, NaN below
double pow(double x, double y);  // x < 0 only with integral y
double sqrt(double x);

}  // namespace bourse::fmath
