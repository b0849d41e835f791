// Messages with every field set to something else than its default, one for each body and for each enumerator that travels,
// and random ones. The corpus in tests/data/wire/v1 was encoded from samples(), so those never change: a field that is added
// to the protocol gets a sample of its own in the corpus of the next version.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/core/messages.h"
#include "common/core/rng.h"

namespace bourse::test {

std::vector<std::pair<std::string, Message>> samples();  // name of the file in the corpus, value
TaskSpec sample_task();
TaskSpec sample_container_task();
TaskSpec sample_in_turn_task();
TaskSpec sample_priority_task();
SliceSpec sample_slice();
SliceSpec sample_group_slice();
TaskStatus sample_status();
Inventory sample_inventory();

Message random_message(Rng& rng);
TaskSpec random_task(Rng& rng);

}  // namespace bourse::test
