#include "common/core/action.h"

#include "common/core/one_of_members.h"

namespace bourse {

void Actions::clear() {  // keeps every capacity: a driver reuses one Actions for all steps
  sends.clear();
  arms.clear();
  disarms.clear();
  appends.clear();
  ticket = 0;
  compact.clear();
  cut.clear();
  reconnect = false;
  leader.clear();
  masters.clear();
  host.clear();
  session.clear();
  replies.clear();
  mails.clear();
  members.clear();
  hand_over = false;
  logs.clear();
  spans.clear();
  stop = false;
  reload = 0;
  views.clear();
}

template struct OneOf<HostActions>;

}  // namespace bourse
