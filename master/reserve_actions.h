// What operators do to reservations: rows of the table in operators.cc.
//
//   action               target  parameters
//   reserve              name    role=ROLE or maintenance=yes; agents=HOSTS or nodes=N, of those that are up the ones with the least on
//                                them; amount.KIND=AMOUNT of each, none: all of it; start=SECONDS since 1970, absent: now;
//                                duration=DURATION, absent: until it is released
//   extend-reservation   name    by=DURATION, end=SECONDS or forever=yes
//   release-reservation  name
#pragma once

#include <string>

#include "common/core/messages.h"
#include "common/core/result.h"

namespace bourse::house {

struct House;

Result<> check_reserve(House& house, const OperatorAction& action);
void record_reserve(House& house, const OperatorAction& action);
Result<> check_extend_reservation(House& house, const OperatorAction& action);
void record_extend_reservation(House& house, const OperatorAction& action);
Result<> check_release_reservation(House& house, const OperatorAction& action);
void record_release_reservation(House& house, const OperatorAction& action);
void apply_reservations(House& house, const OperatorAction& action);

}  // namespace bourse::house
