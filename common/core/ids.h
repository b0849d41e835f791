// Names and numbers of things, each a type of its own so that launch(task, agent) cannot be called the wrong way round.
//
// ZeroMQ's routing ids are random and never trusted: (id, incarnation) is an identity. Numbers that order things, and what
// each orders: Incarnation (a process's life), Epoch (a leadership), Generation (of an offer, slice or device), Sequence
// (in a stream), Version (of a schema, ABI or published state).
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace bourse {

template <class Tag>
struct Name {
  std::string value;
  Name() = default;
  explicit Name(std::string v) : value(std::move(v)) {}
  [[nodiscard]] bool empty() const { return value.empty(); }
  [[nodiscard]] const std::string& str() const { return value; }
  auto operator<=>(const Name&) const = default;
  bool operator==(const Name&) const = default;
};

template <class Tag>
struct Number {
  std::uint64_t value = 0;
  constexpr Number() = default;
  constexpr explicit Number(std::uint64_t v) : value(v) {}
  [[nodiscard]] constexpr Number next() const { return Number(value + 1); }
  constexpr auto operator<=>(const Number&) const = default;
  constexpr bool operator==(const Number&) const = default;
};

using AgentId = Name<struct AgentTag>;          // one per host: by default its host name
using FrameworkId = Name<struct FrameworkTag>;  // "batch", "service", a third party's
using RoleName = Name<struct RoleTag>;          // an account; names form a tree: "org/team"
using TaskId = Name<struct TaskTag>;            // chosen by the framework, unique within it for ever; batch: "job.part.attempt"
using DeviceId = Name<struct DeviceTag>;        // a device's uuid, unique within a host

using Incarnation = Number<struct IncarnationTag>;
using Epoch = Number<struct EpochTag>;
using Generation = Number<struct GenerationTag>;
using Sequence = Number<struct SequenceTag>;
using Version = Number<struct VersionTag>;
using OfferId = Number<struct OfferTag>;    // unique within the life of a cluster: epoch in the high 24 bits, counter below
using GangId = Number<struct GangTag>;      // unique within a framework
using StreamId = Number<struct StreamTag>;  // one life of a status stream (an agent's checkpoint)
using PeerId = Number<struct PeerTag>;      // a connection as the driver knows it; dies with the connection

// A slice is named by the framework that asked for it, so that asking twice is harmless. The library makes the number as
// (incarnation << 24) + counter, hence it is never used again.
struct SliceId {
  FrameworkId framework;
  std::uint64_t number = 0;
  auto operator<=>(const SliceId&) const = default;
  bool operator==(const SliceId&) const = default;
};

// A task as an agent or the master knows it: ids of two frameworks may be equal.
struct TaskKey {
  FrameworkId framework;
  TaskId task;
  auto operator<=>(const TaskKey&) const = default;
  bool operator==(const TaskKey&) const = default;
};

std::string to_text(const SliceId& id);   // "batch#4711"
std::string to_text(const TaskKey& key);  // "batch/12.0.1"

// Names travel in messages, file names and cgroup paths: 1 to 128 of [A-Za-z0-9._/+@:-], not starting with '.' or '/', no "/.".
[[nodiscard]] bool valid_name(const std::string& text);

}  // namespace bourse

template <class Tag>
struct std::hash<bourse::Name<Tag>> {
  std::size_t operator()(const bourse::Name<Tag>& n) const noexcept { return std::hash<std::string>()(n.value); }
};
template <class Tag>
struct std::hash<bourse::Number<Tag>> {
  std::size_t operator()(const bourse::Number<Tag>& n) const noexcept { return std::hash<std::uint64_t>()(n.value); }
};
template <>
struct std::hash<bourse::SliceId> {
  std::size_t operator()(const bourse::SliceId& s) const noexcept {
    return std::hash<std::string>()(s.framework.value) * 31 + std::hash<std::uint64_t>()(s.number);
  }
};
template <>
struct std::hash<bourse::TaskKey> {
  std::size_t operator()(const bourse::TaskKey& k) const noexcept {
    return std::hash<std::string>()(k.framework.value) * 31 + std::hash<std::string>()(k.task.value);
  }
};
