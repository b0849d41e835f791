// libraft's header, which does not say that it is C. See raft.h, which is ours.
#pragma once

extern "C" {
#include <raft.h>
}
