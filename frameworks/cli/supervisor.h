// What keeps a local cluster running: starts its programs, starts those again that die, ends all in order.
//
// One process, one thread, a reactor. Programs die with it (PR_SET_PDEATHSIG): agents leave their tasks running then, and the
// next supervisor's agents take them over. SIGTERM or SIGINT ends the cluster; SIGHUP has the master read its keys again.
#pragma once

#include <string>
#include <vector>

#include "common/core/result.h"
#include "common/core/time.h"

namespace bourse::cli {

constexpr Duration kRestartFirst = seconds(1), kRestartMost = seconds(30);  // doubling; a life of kGoodLife starts it anew
constexpr Duration kGoodLife = seconds(60);
constexpr Duration kEndWait = seconds(10);       // until SIGKILL
constexpr Duration kEndWaitAgent = seconds(60);  // they end tasks, which have their own grace

struct SupervisorOptions {
  std::string dir;
  int ready_fd = -1;    // a line: empty when all are ready, else what went wrong
  bool remove = false;  // the directory too, at the end
};
Result<> supervise(const SupervisorOptions& options);  // until told to end

}  // namespace bourse::cli
