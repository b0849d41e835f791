// Inside of common/wire only: one write and one read for every message body. Nobody but wire.cc includes this header.
#pragma once

#include "common/wire/codec.h"

// Every member of Body, in the order of the variant.
#define BOURSE_BODIES(X) \
  X(AgentHello)          \
  X(FrameworkHello)      \
  X(ReaderHello)         \
  X(Welcome)             \
  X(Refused)             \
  X(Heartbeat)           \
  X(InventoryUpdate)     \
  X(Goodbye)             \
  X(Demand)              \
  X(Offers)              \
  X(OffersEnded)         \
  X(Accept)              \
  X(AcceptReply)         \
  X(Decline)             \
  X(CarveSlices)         \
  X(CommitGang)          \
  X(AbortGang)           \
  X(GangHeld)            \
  X(SliceUp)             \
  X(SliceGone)           \
  X(ReleaseSlices)       \
  X(SliceRevoking)       \
  X(Launch)              \
  X(Kill)                \
  X(StatusUpdate)        \
  X(StatusAck)           \
  X(Reconcile)           \
  X(DeclareLost)         \
  X(LaunchRefused)       \
  X(AgentsUpdate)        \
  X(ExplainQuery)        \
  X(ExplainReply)        \
  X(StatusQuery)         \
  X(StatusReply)         \
  X(OperatorAction)      \
  X(OperatorReply)       \
  X(Watch)               \
  X(WatchAck)            \
  X(ViewUpdate)          \
  X(ReloadConfig)        \
  X(ConfigReloaded)

namespace bourse::wire {

#define BOURSE_DECLARE(NAME)                            \
  Offset<fb::NAME> write(Builder& b, const NAME& body); \
  bool read(In& in, const fb::NAME& table, NAME& body);
BOURSE_BODIES(BOURSE_DECLARE)
#undef BOURSE_DECLARE

}  // namespace bourse::wire
