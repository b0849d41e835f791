#include "common/core/session.h"

#include "common/core/one_of_members.h"

namespace bourse {

template struct OneOf<SessionEvents>;
template struct OneOf<SessionCommands>;

}  // namespace bourse
