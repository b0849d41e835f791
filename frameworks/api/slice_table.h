// Slices that this framework has asked for or has, and the gangs they form. Owned by the client actor.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/core/session.h"

namespace bourse::api {

class SliceTable {
 public:
  enum class Stage : std::uint8_t {
    kAsked,     // named in an accept that is not answered
    kPromised,  // the accept was answered kOk
    kUp,
  };
  struct Entry {
    Stage stage = Stage::kAsked;
    AgentId agent;  // empty until known
    GangId gang;
    bool confirmed = false;  // reported in this session
    bool releasing = false;  // given back; said again in each session until it is gone
    Duration grace{0};       // of the release
  };
  // What a change of a slice means for its gang.
  enum class GangNews : std::uint8_t { kNone, kReady, kFailed };

  void asked(std::uint64_t number, GangId gang);
  void promised(std::uint64_t number);
  GangNews up(const AgentId& agent, const SliceSpec& spec);
  // Of a slice, or of an accept's item: it will not be (any more). False from `known` when it was not in the table.
  GangNews gone(std::uint64_t number, bool& known);
  [[nodiscard]] Entry* find(std::uint64_t number);
  Entry& put(std::uint64_t number) { return slices_[number]; }
  // Of kReady and kFailed: the gang's members that are in the table; the gang itself is forgotten.
  std::vector<std::uint64_t> drop_gang(GangId gang);
  [[nodiscard]] bool gang_waits(GangId gang) const { return gangs_.contains(gang); }  // neither ready nor failed
  void session_lost();                                                                // nothing is confirmed
  [[nodiscard]] const std::map<std::uint64_t, Entry>& all() const { return slices_; }
  [[nodiscard]] bool seen_gone(std::uint64_t number) const { return gone_.contains(number); }

 private:
  static constexpr std::size_t kGoneMax = 4096;  // ended slices that are remembered, so that an end is told once
  std::map<std::uint64_t, Entry> slices_;
  std::map<GangId, std::set<std::uint64_t>> gangs_;  // members that are not up yet
  std::map<GangId, std::vector<std::uint64_t>> members_;
  std::set<std::uint64_t> gone_;
};

}  // namespace bourse::api
