// Why a demand line has not got what it wants: every agent in exactly one class. Linear in agents; asked for by people.
#pragma once

#include "common/core/messages.h"

namespace bourse::house {

struct House;
struct Session;

void on_explain(House& house, const Session& from, const Message& message);
[[nodiscard]] ExplainReply explain(House& house, const ExplainQuery& query);

}  // namespace bourse::house
