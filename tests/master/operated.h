// A rig with an operator and people who look at things.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rig.h"

namespace bourse::test {

using Parameters = std::vector<std::pair<std::string, std::string>>;

struct Operated : Rig {
  static constexpr std::uint64_t kOperator = 31;
  explicit Operated(MasterOptions o = {}) : Rig(std::move(o)) {}
  void operate() { say(kOperator, ReaderHello{kProtocolVersion, "op"}); }
  OperatorReply act(const std::string& action, const std::string& target, Parameters parameters = {},
                    const std::string& reason = "") {
    if (!operating) operate();
    operating = true;
    say(kOperator, OperatorAction{++tag, action, target, reason, std::move(parameters)});
    auto replies = take<OperatorReply>(kOperator);
    EXPECT_EQ(replies.size(), 1U) << action;
    return replies.empty() ? OperatorReply{} : replies.back();
  }
  void ok(const std::string& action, const std::string& target, Parameters parameters = {}, const std::string& reason = "") {
    const OperatorReply reply = act(action, target, std::move(parameters), reason);
    EXPECT_EQ(reply.code, Code::kOk) << action << ": " << reply.reason;
  }
  std::string refused(const std::string& action, const std::string& target, Parameters parameters = {}) {
    const OperatorReply reply = act(action, target, std::move(parameters));
    EXPECT_NE(reply.code, Code::kOk) << action;
    return reply.reason;
  }
  void again() {  // the master is killed and started
    operating = false;
    start();
  }
  void join(std::uint64_t peer, const std::string& name, const std::string& role, bool watch = false) {
    FrameworkHello hello;
    hello.framework = FrameworkId(name);
    hello.role = RoleName(role);
    hello.incarnation = Incarnation(1);
    hello.failover_timeout = seconds(3600);
    hello.watch_agents = watch;
    say(peer, hello);
  }
  void live(Duration span, const std::vector<std::uint64_t>& peers) {  // they are heard all the while
    for (Duration done{0}; done < span; done += seconds(4)) {
      run(std::min(span - done, Duration(seconds(4))));
      for (const std::uint64_t peer : peers) say(peer, Heartbeat{});
      if (operating) say(kOperator, Heartbeat{});
    }
  }
  static std::int64_t cpus_of(const std::vector<Offer>& offers) {
    std::int64_t sum = 0;
    for (const Offer& offer : offers) sum += offer.resources.cpus.value;
    return sum / 1000;
  }
  std::int64_t offered_cpus(std::uint64_t peer) { return cpus_of(offers(peer)); }
  std::vector<StatusReply::Row> status(const std::string& what, const std::string& after = "") {
    if (!operating) operate();
    operating = true;
    say(kOperator, StatusQuery{++tag, what, after, 0});
    return take<StatusReply>(kOperator).at(0).rows;
  }
  static std::string field(const StatusReply::Row& row, const std::string& name) {
    for (const auto& [key, value] : row.fields)
      if (key == name) return value;
    return "?";
  }
  ExplainReply why(std::uint64_t peer, const std::string& framework, std::uint64_t id) {
    say(peer, ExplainQuery{++tag, FrameworkId(framework), id});
    return take<ExplainReply>(peer).at(0);
  }
  std::uint64_t tag = 0;
  bool operating = false;
};

inline std::uint32_t count(const ExplainReply& reply, const std::string& reason) {
  for (const auto& c : reply.counts)
    if (c.reason == reason) return c.agents;
  return 0;
}

}  // namespace bourse::test
