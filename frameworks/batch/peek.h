// What a request is about, seen without taking it apart: most are taken apart later, by the actor, and once is enough.
#pragma once

#include <string_view>

namespace bourse::batch {

// It asks for a job, the history, or why: what the history's thread may have to answer. False for what is no request at all. Says
// nothing about whether the rest of it can be read.
bool may_ask_the_past(std::string_view request);

}  // namespace bourse::batch
