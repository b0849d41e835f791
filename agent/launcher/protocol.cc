#include "agent/launcher/protocol.h"

#include <charconv>
#include <limits>
#include <optional>

#include "common/wire/wire.h"

// The header line is words separated by single spaces. A task key is "FRAMEWORK|TASK" and a slice "FRAMEWORK#NUMBER": names
// may hold '/', but neither '|', '#' nor a space (see valid_name). Free text is always the last thing of a line.
namespace bourse::launcher {

std::string key_word(const TaskKey& key) { return key.framework.value + "|" + key.task.value; }

std::string slice_word(const SliceId& slice) { return slice.framework.value + "#" + std::to_string(slice.number); }

namespace {

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<TaskKey> parse_key_word(std::string_view word) {
  const auto bar = word.find('|');
  if (bar == std::string_view::npos) return std::nullopt;
  TaskKey key{FrameworkId(std::string(word.substr(0, bar))), TaskId(std::string(word.substr(bar + 1)))};
  if (!valid_name(key.framework.value) || !valid_name(key.task.value)) return std::nullopt;
  return key;
}

std::optional<SliceId> parse_slice_word(std::string_view word) {
  const auto hash = word.find('#');
  if (hash == std::string_view::npos) return std::nullopt;
  const auto n = number<std::uint64_t>(word.substr(hash + 1));
  SliceId slice{FrameworkId(std::string(word.substr(0, hash))), n.value_or(0)};
  if (!n || !valid_name(slice.framework.value)) return std::nullopt;
  return slice;
}

namespace {

// Takes words off the front of a line. After a failure `ok` stays false and every value is empty.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}
  std::string_view word() {
    const auto space = rest_.find(' ');
    const std::string_view w = rest_.substr(0, space);
    rest_.remove_prefix(space == std::string_view::npos ? rest_.size() : space + 1);
    if (w.empty()) ok_ = false;
    return w;
  }
  template <class T>
  T num(T least = std::numeric_limits<T>::min()) {
    const auto n = number<T>(word());
    if (!n || *n < least) ok_ = false;
    return n.value_or(T{});
  }
  bool flag() { return num<unsigned>() != 0; }
  TaskKey key() { return take(parse_key_word(word())); }
  SliceId slice() { return take(parse_slice_word(word())); }
  std::vector<std::uint32_t> set() {  // "-", or "0,1,5"
    std::vector<std::uint32_t> out;
    std::string_view w = word();
    if (w == "-") return out;
    while (ok_ && out.size() < kSetMax) {
      const auto comma = w.find(',');
      out.push_back(take(number<std::uint32_t>(w.substr(0, comma))));
      if (comma == std::string_view::npos) return out;
      w.remove_prefix(comma + 1);
    }
    ok_ = false;
    return out;
  }
  std::string text() {
    std::string t(rest_);
    rest_ = {};
    return t;
  }
  [[nodiscard]] bool more() const { return !rest_.empty(); }
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool done() const { return ok_ && rest_.empty(); }

 private:
  template <class T>
  T take(std::optional<T> value) {
    if (!value) ok_ = false;
    return value ? *std::move(value) : T{};
  }
  std::string_view rest_;
  bool ok_ = true;
};

std::string_view take_line(std::string_view& bytes) {
  const auto end = bytes.find('\n');
  const std::string_view line = bytes.substr(0, end);
  bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
  return line;
}

std::string set_word(const std::vector<std::uint32_t>& set) {
  if (set.empty()) return "-";
  std::string out;
  for (const auto n : set) out += (out.empty() ? "" : ",") + std::to_string(n);
  return out;
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

struct Encoder {
  std::string operator()(const Hello& p) const {
    std::string out = "hello";
    for (const auto& slice : p.slices) out += " " + slice_word(slice);
    return out + "\n";
  }
  std::string operator()(const Prepare& p) const {
    const auto& l = p.limits;
    return "prepare " + slice_word(p.slice) + " " + std::to_string(l.cpus.value) + " " + std::to_string(l.mem.value) + " " +
           std::to_string(l.pids) + " " + set_word(l.cpuset) + " " + set_word(l.mems) + more_limits(l) + "\n";
  }
  // Only what there is, in any order after the first words: " high=N dev=c1:3,... io=8:0:R:W:r:w,...".
  static std::string more_limits(const SliceLimits& l) {
    std::string out;
    if (l.revocable) out += " lent=1";
    if (l.mem_high.value > 0) out += " high=" + std::to_string(l.mem_high.value);
    if (l.devices_limited) {
      std::string list;
      for (const DeviceRule& rule : l.devices) {
        std::string text = devices::text(rule);
        text.erase(1, 1);
        list += (list.empty() ? "" : ",") + text;
      }
      out += " dev=" + (list.empty() ? "-" : list);
    }
    std::string io;
    for (const IoLimit& one : l.io) {
      io += io.empty() ? " io=" : ",";
      io += std::to_string(one.major) + ":" + std::to_string(one.minor);
      for (const std::uint64_t n : {one.read_bytes, one.write_bytes, one.reads, one.writes}) io += ":" + std::to_string(n);
    }
    return out + io;
  }
  std::string operator()(const Release& p) const { return "release " + slice_word(p.slice) + "\n"; }
  std::string operator()(const Start& p) const {
    std::string out = "start " + key_word(p.task) + " " + slice_word(p.slice) + to_words(p.confine);
    for (const auto& node : p.device_nodes) out += " dev=" + node;
    if (!p.hypervisor.empty()) out += " vm=" + p.hypervisor;
    if (!p.warm.empty()) out += " warm=" + p.warm;
    if (p.own_variables != 0) out += " own=" + std::to_string(p.own_variables) + "," + std::to_string(p.replaced);
    return out + "\n" + wire::encode_task(p.spec);
  }
  std::string operator()(const Signal& p) const {
    return "signal " + key_word(p.task) + " " + std::to_string(p.signal) + (p.whole ? " 1\n" : " 0\n");
  }
  std::string operator()(const Forget& p) const { return "forget " + key_word(p.task) + "\n"; }
  std::string operator()(const Measure&) const { return "measure\n"; }
  std::string operator()(const LimitLent& p) const { return "lent " + std::to_string(p.mem.value) + "\n"; }
  std::string operator()(const Squeeze& p) const {
    return "squeeze " + slice_word(p.slice) + " " + std::to_string(p.mem_high.value) + "\n";
  }
  std::string operator()(const Lease& p) const { return "lease " + std::to_string(p.until_ms) + "\n"; }
  std::string operator()(const Measured& p) const {
    std::string out = "measured\n";
    for (const auto& s : p.slices)
      out += slice_word(s.slice) + " " + std::to_string(s.use.cpu.count()) + " " + std::to_string(s.use.mem.value) +
             (s.use.critical ? " 1\n" : " 0\n");
    return out;
  }
  std::string operator()(const State& p) const {
    std::string out = "state " + p.isolation + (p.rebooted ? " 1\n" : " 0\n");
    for (const auto& d : p.degraded) out += "degraded " + one_line(d) + "\n";
    for (const auto& t : p.running)
      out += "task " + key_word(t.task) + " " + slice_word(t.slice) + " " + std::to_string(t.pid) + "\n";
    return out;
  }
  std::string operator()(const Prepared& p) const { return "prepared " + slice_word(p.slice) + " " + one_line(p.error) + "\n"; }
  std::string operator()(const Released& p) const { return "released " + slice_word(p.slice) + "\n"; }
  std::string operator()(const StartedTask& p) const { return "started " + key_word(p.task) + " " + std::to_string(p.pid) + "\n"; }
  std::string operator()(const StartFailed& p) const {
    return (p.withdrawn ? "withdrawn " : "failed ") + key_word(p.task) + " " + one_line(p.reason) + "\n";
  }
  std::string operator()(const Ended& p) const {
    return "ended " + key_word(p.task) + (p.known ? " 1 " : " 0 ") + std::to_string(p.wait_status) + " " +
           std::to_string(p.cpu.count()) + (p.out_of_memory ? " 1 " : " 0 ") + std::to_string(p.mem_peak.value) + " " +
           std::to_string(p.started.count()) + " " + std::to_string(p.ended.count()) + (p.fenced ? " 1\n" : "\n");
  }
};

template <class Each>
bool each_part(std::string_view list, char separator, const Each& each) {
  for (;;) {
    const auto end = list.find(separator);
    if (!each(list.substr(0, end))) return false;
    if (end == std::string_view::npos) return true;
    list.remove_prefix(end + 1);
  }
}

bool read_more_limits(Words& w, SliceLimits& l) {
  while (w.ok() && w.more()) {
    std::string_view word = w.word();
    const auto equals = word.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view name = word.substr(0, equals), value = word.substr(equals + 1);
    if (name == "lent") {
      if (value != "1") return false;
      l.revocable = true;
    } else if (name == "high") {
      const auto n = number<std::int64_t>(value);
      if (!n || *n < 0) return false;
      l.mem_high = Bytes{*n};
    } else if (name == "dev") {
      l.devices_limited = true;
      const auto add = [&](std::string_view text) {
        auto rule = devices::parse(text.empty() ? "" : std::string(text.substr(0, 1)) + " " + std::string(text.substr(1)));
        if (rule) l.devices.push_back(*rule);
        return rule && l.devices.size() <= kDeviceRulesMax;
      };
      if (value != "-" && !each_part(value, ',', add)) return false;
    } else if (name == "io") {
      const auto add = [&](std::string_view text) {
        std::vector<std::uint64_t> n;
        const bool ok = each_part(text, ':', [&](std::string_view part) {
          const auto one = number<std::uint64_t>(part);
          n.push_back(one.value_or(0));
          return one && n.size() <= 6;
        });
        if (!ok || n.size() != 6 || n[0] > 0xffffffff || n[1] > 0xffffffff) return false;
        l.io.push_back({static_cast<std::uint32_t>(n[0]), static_cast<std::uint32_t>(n[1]), n[2], n[3], n[4], n[5]});
        return l.io.size() <= kIoLimitsMax;
      };
      if (!each_part(value, ',', add)) return false;
    } else {
      return false;
    }
  }
  return w.ok();
}

Error malformed(std::string_view kind) {
  return {Code::kCorrupt, "launcher packet: malformed \"" + std::string(kind.substr(0, 32)) + "\""};
}

Result<Packet> decode_state(Words w, std::string_view rest) {
  State p;
  p.isolation = std::string(w.word());
  p.rebooted = w.flag();
  if (!w.done()) return malformed("state");
  while (!rest.empty()) {
    Words line(take_line(rest));
    const std::string_view kind = line.word();
    if (kind == "degraded") {
      p.degraded.push_back(line.text());
    } else if (kind == "task") {
      auto task = line.key();
      auto slice = line.slice();
      p.running.push_back({std::move(task), std::move(slice), line.num<std::int64_t>(0)});
      if (!line.done()) return malformed("state task");
    } else {
      return malformed("state line");
    }
  }
  return Packet(std::move(p));
}

Result<Packet> decode_measured(Words w, std::string_view rest) {
  Measured p;
  if (!w.done()) return malformed("measured");
  while (!rest.empty()) {
    Words line(take_line(rest));
    Measured::Slice s;
    s.slice = line.slice();
    s.use.cpu = Duration(line.num<std::int64_t>(0));
    s.use.mem = Bytes{line.num<std::int64_t>(0)};
    s.use.critical = line.flag();
    if (!line.done()) return malformed("measured slice");
    p.slices.push_back(std::move(s));
  }
  return Packet(std::move(p));
}

}  // namespace

std::string encode(const Packet& packet) { return std::visit(Encoder{}, packet); }

Result<Packet> decode(std::string_view bytes) {
  if (bytes.size() > kPacketBytesMax) return Error(Code::kLimit, "launcher packet: larger than 4 MiB");
  std::string_view rest = bytes;
  if (rest.find('\n') == std::string_view::npos) return malformed(bytes.empty() ? "empty" : "no line end");
  Words w(take_line(rest));
  const std::string_view kind = w.word();
  if (kind == "state") return decode_state(w, rest);
  if (kind == "measured") return decode_measured(w, rest);
  if (kind == "start") {
    Start p;
    p.task = w.key();
    p.slice = w.slice();
    while (w.ok() && w.more()) {
      const std::string_view word = w.word();
      if (word.compare(0, 4, "dev=") == 0) {
        p.device_nodes.emplace_back(word.substr(4));
      } else if (word.compare(0, 3, "vm=") == 0) {
        p.hypervisor = word.substr(3);
      } else if (word.compare(0, 5, "warm=") == 0) {
        p.warm = word.substr(5);
      } else if (word.compare(0, 4, "own=") == 0) {
        const auto comma = word.find(',');
        const auto own = number<std::uint32_t>(word.substr(4, comma == std::string_view::npos ? comma : comma - 4));
        const auto replaced =
            comma == std::string_view::npos ? std::optional<std::uint32_t>(0) : number<std::uint32_t>(word.substr(comma + 1));
        if (!own || !replaced) return malformed(kind);
        p.own_variables = *own;
        p.replaced = *replaced;
      } else {
        BOURSE_TRY(read_word(p.confine, word));
      }
    }
    if (!w.done()) return malformed(kind);
    auto spec = wire::decode_task(rest);
    if (!spec) return std::move(spec).error().add("launcher packet: start");
    p.spec = *std::move(spec);
    if (std::uint64_t{p.own_variables} + p.replaced > p.spec.env.size()) return malformed(kind);
    return Packet(std::move(p));
  }
  if (!rest.empty()) return malformed(kind);  // only those above have more than a line
  Packet packet;
  if (kind == "hello") {
    Hello p;
    while (w.ok() && w.more()) p.slices.push_back(w.slice());
    packet = std::move(p);
  } else if (kind == "prepare") {
    Prepare p;
    p.slice = w.slice();
    p.limits.cpus = MilliCpus{w.num<std::int64_t>(0)};
    p.limits.mem = Bytes{w.num<std::int64_t>(0)};
    p.limits.pids = w.num<std::uint32_t>();
    p.limits.cpuset = w.set();
    p.limits.mems = w.set();
    if (!read_more_limits(w, p.limits)) return malformed(kind);
    packet = std::move(p);
  } else if (kind == "release") {
    packet = Release{w.slice()};
  } else if (kind == "signal") {
    Signal p;
    p.task = w.key();
    p.signal = w.num<int>(0);
    p.whole = w.flag();
    if (p.signal > 64) return malformed(kind);
    packet = std::move(p);
  } else if (kind == "forget") {
    packet = Forget{w.key()};
  } else if (kind == "measure") {
    packet = Measure{};
  } else if (kind == "lent") {
    packet = LimitLent{Bytes{w.num<std::int64_t>(0)}};
  } else if (kind == "lease") {
    packet = Lease{w.num<std::int64_t>(0)};
  } else if (kind == "squeeze") {
    Squeeze p;
    p.slice = w.slice();
    p.mem_high = Bytes{w.num<std::int64_t>(0)};
    packet = std::move(p);
  } else if (kind == "prepared") {
    Prepared p;
    p.slice = w.slice();
    p.error = w.text();
    packet = std::move(p);
  } else if (kind == "released") {
    packet = Released{w.slice()};
  } else if (kind == "started") {
    StartedTask p;
    p.task = w.key();
    p.pid = w.num<std::int64_t>(0);
    packet = std::move(p);
  } else if (kind == "failed" || kind == "withdrawn") {
    StartFailed p;
    p.withdrawn = kind == "withdrawn";
    p.task = w.key();
    p.reason = w.text();
    packet = std::move(p);
  } else if (kind == "ended") {
    Ended p;
    p.task = w.key();
    p.known = w.flag();
    p.wait_status = w.num<int>();
    p.cpu = Duration(w.num<std::int64_t>(0));
    p.out_of_memory = w.flag();
    p.mem_peak = Bytes{w.num<std::int64_t>(0)};
    if (w.more()) {  // a launcher of an earlier version does not say
      p.started = Duration(w.num<std::int64_t>(0));
      p.ended = Duration(w.num<std::int64_t>(0));
    }
    if (w.more()) p.fenced = w.flag();
    packet = std::move(p);
  } else {
    return malformed(kind);
  }
  if (!w.done()) return malformed(kind);
  return packet;
}

}  // namespace bourse::launcher
