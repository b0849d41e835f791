#include "common/core/event.h"

#include "common/core/one_of_members.h"

namespace bourse {

template struct OneOf<Events>;

}  // namespace bourse
