// Asks the master for its view, round after round: a step machine that has neither socket nor clock.
//
// Owned by main, on the reactor's thread. It never has more than one question under way, each for a bounded page; a round begins no
// sooner than `interval` after the one before, and a round that took long is followed by a rest of kRestTimes its length, so that the
// console takes a small part of the master's time however large the cluster is. A master that is restarted, or replaced by another, is
// found again by itself; what was asked of the earlier one is thrown away, so a view is of one epoch. That is "One view".
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/core/messages.h"
#include "common/core/time.h"
#include "frameworks/console/view.h"

namespace bourse::console {

constexpr Duration kHelloAgain = seconds(1);    // between two hellos that nobody answers
constexpr Duration kAnswerTime = seconds(5);    // for one page; then the master counts as gone
constexpr Duration kRefusedAgain = seconds(5);  // after a refusal that only a person can mend
constexpr int kHellosEach = 2;                  // to one master, before the next in the list is tried
constexpr int kRestTimes = 9;                   // at most a tenth of the time there is a question under way
// Rows that are kept; what is beyond is left out, and the snapshot says so.
constexpr std::size_t kAgentRowsMax = 100'000, kFrameworkRowsMax = 10'000, kRoleRowsMax = 10'000, kDemandRowsMax = 10'000,
                      kEventsKept = 500;

// Why a demand waits is the one question that the master answers by looking at every agent, so one line is asked about in a round, each
// in its turn.
class Poller {
 public:
  struct Hooks {
    std::function<void(Body)> send;
    std::function<void(const std::string& leader)> next_master;        // leave this one; for the one named, else the next
    std::function<void()> on_view;                                     // view() is a new one
    std::function<void(const std::vector<std::string>& all)> masters;  // that there are
  };
  Poller(std::string name, Duration interval, Hooks hooks);

  void receive(const Time& now, Message message);
  void lost(const Time& now);      // what was sent may not have gone out
  Duration turn(const Time& now);  // does what is due, and says when (mono) to come again

  [[nodiscard]] const View& view() const { return view_; }
  [[nodiscard]] Epoch epoch() const { return epoch_; }
  [[nodiscard]] bool connected() const { return state_ != State::kHello; }
  [[nodiscard]] const std::string& error() const { return error_; }  // why not connected; "" where nothing is known against it
  [[nodiscard]] std::uint64_t rounds() const { return view_.number; }
  [[nodiscard]] std::uint64_t failures() const { return failures_; }  // rounds that were begun, or sought a master, in vain

 private:
  enum class State { kHello, kIdle, kAsking };

  void seek(const Time& now, const std::string& why, Duration after);
  void ask(const Time& now);
  void begin_round(const Time& now);
  void on_reply(const Time& now, StatusReply reply);
  void on_why(const Time& now, const ExplainReply& reply);
  void take_rows(std::vector<Row>& rows);
  [[nodiscard]] bool full(std::string_view what) const;
  bool ask_why(const Time& now);  // false: nobody waits
  void publish(const Time& now);

  std::string name_;
  Duration interval_;
  Hooks hooks_;
  State state_ = State::kHello;
  Duration due_{0};
  int hellos_ = 0;
  Epoch epoch_;
  std::string cluster_, error_;
  std::uint64_t tag_ = 0, failures_ = 0;

  std::size_t step_ = 0;  // of the round: what is asked for
  bool step_full_ = false;
  std::string after_;
  Duration began_{0}, earliest_{0};
  View round_, view_;
  std::pair<std::string, std::uint64_t> explained_;  // the line that was asked about last
};

}  // namespace bourse::console
