// The constraint language of bourse-constraint(7): what expressions mean, by an evaluator of this test's own and by other programs
// (dpkg for the order of versions, fnmatch(3) for patterns), and that it is total, bounded and round-trips.
#include <fnmatch.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <map>

#include "common/core/expression.h"
#include "common/core/hooks.h"
#include "common/core/labels.h"
#include "common/core/placement.h"
#include "common/core/resources.h"
#include "common/core/rng.h"

namespace bourse {
namespace {

template <class T>
std::string refusal(const Result<T>& r) {
  return r ? "accepted" : r.error().text();
}

Resources big_host() {
  Resources r;
  r.cpus = MilliCpus(64'000);
  r.mem = Bytes(256LL << 30);
  r.disk = Bytes(2LL << 40);
  r.numa = {{0, MilliCpus(32'000), Bytes(128LL << 30)}, {1, MilliCpus(32'000), Bytes(128LL << 30)}};
  r.others.set("license.solver", 3);
  for (const char* id : {"GPU-1", "GPU-2"}) {
    DeviceShare gpu;
    gpu.device = DeviceId(id);
    gpu.kind = "gpu/nvidia";
    gpu.whole = true;
    gpu.counters.set("mem", 81920);
    gpu.traits.attributes = {{"model", id[4] == '1' ? "A100 80GB" : "H100"}, {"driver", "535.54"}};
    r.devices.push_back(gpu);
  }
  return r;
}

const Labels kLabels = {{"host", "n12"},   {"zone", "eu-1"}, {"rack", "r2"}, {"arch", "x86_64"},
                        {"cuda", "11.10"}, {"ssd", ""},      {"and", "x"},   {"odd one", "a \"b\""}};

bool agent_satisfies(const std::string& text) {
  const auto parsed = parse_constraints(text);
  EXPECT_TRUE(parsed) << refusal(parsed);
  if (!parsed) return false;
  Shape shape;
  shape.constraints = *parsed;
  const Resources total = big_host();
  return fits(shape, total, total, kLabels) == Misfit::kNone;
}

TEST(Expressions, MeanWhatTheManPageSays) {
  const std::vector<std::pair<std::string, bool>> cases = {
      // labels
      {"zone = eu-1", true},
      {"zone=eu-2", false},
      {"zone=eu-2|rack=r2", true},
      {"zone=eu-2 or rack=r2", true},
      {"!(zone=eu-2|rack=r3)", true},
      {"not zone = eu-1", false},
      {"zone not in (a,b)", true},
      {"zone notin (eu-1)", false},
      {"ssd", true},
      {"!ssd", false},
      {"!!ssd", true},
      {"gpu", false},
      {"ssd && !gpu", true},
      {"ssd and not gpu", true},
      {"a|ssd&gpu", false},
      {"(a|ssd)&zone", true},
      {"a|b|c|ssd", true},
      {"ssd||a", true},
      // numbers, versions and texts in order; '=' is the text
      {"cuda >= 11.8", true},
      {"cuda < 11.8", false},
      {"cuda<11.11", true},
      {"cuda = 11.10", true},
      {"cuda=11.010", false},
      {"cuda <= 11.010", true},
      {"cuda > 9", true},
      {"arch < y", true},
      {"gpu < 9", false},
      {"gpu >= 0", false},
      {"!(gpu<9)", true},
      // patterns
      {"host ~ n1*", true},
      {"host~n?", false},
      {"host~n??", true},
      {"host !~ n*", false},
      {"gpu !~ *", true},
      {"gpu ~ *", false},
      {"zone ~ \"*-1\"", true},
      {"ssd ~ *", true},
      // host lists
      {"host=n[10-19]", true},
      {"host in (n[1-9], m1)", false},
      {"host=n[1-3]|host=n[12,14]", true},
      // quotes
      {"\"and\"=x", true},
      {"\"odd one\" = \"a \\\"b\\\"\"", true},
      {"\"odd one\"=a", false},
      // what the agent has in total
      {"agent.cpus >= 64", true},
      {"agent.cpus>64", false},
      {"agent.cpus = 64.0", true},
      {"agent.cpus in (1,64)", true},
      {"agent.mem >= 64GiB", true},
      {"agent.mem = 256G", true},
      {"agent.mem<1TiB", true},
      {"agent.disk >= 2T", true},
      {"agent.numa = 2", true},
      {"agent.ports", false},
      {"count.gpu/nvidia >= 2", true},
      {"count.gpu/ = 2", true},
      {"count.gpu/ > 2", false},
      {"count.fpga", false},
      {"!count.fpga", true},
      {"count.license.solver = 3", true},
      {"count.gpu/ | agent.mem >= 1T", true},
      // whole ones: what old ones said
      {"", true},
      {"  ", true},
      {"zone in ( a , eu-1 )&rack!=r1&!gpu", true},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(agent_satisfies(text), expected) << text;
}

TEST(Expressions, OfADeviceAreAboutItsAttributesKindIdAndCounters) {
  const std::vector<std::pair<std::string, bool>> cases = {{"model ~ A100*", true},
                                                           {"model = H100 & counter.mem >= 81920", true},
                                                           {"counter.mem > 81920", false},
                                                           {"model=H100|model=\"A100 80GB\"", true},
                                                           {"driver >= 535.6", true},
                                                           {"driver >= 536", false},
                                                           {"kind = gpu/nvidia", true},
                                                           {"uuid=GPU-3", false},
                                                           {"agent.cpus >= 64 & uuid=GPU-2", true},
                                                           {"!model", false}};
  const Resources total = big_host();
  for (const auto& [text, expected] : cases) {
    Shape shape;
    DeviceAsk ask;
    ask.kind = "gpu/";
    const auto parsed = parse_constraints(text);
    ASSERT_TRUE(parsed) << refusal(parsed);
    ask.attributes = *parsed;
    shape.devices = {ask};
    EXPECT_EQ(fits(shape, total, total, {}) == Misfit::kNone, expected) << text;
  }
}

TEST(Expressions, AConjunctionIsOneConstraintForEachPartAndPlainPartsKeepTheirForm) {
  const auto parsed = parse_constraints("zone in (a,b) & (ssd|nvme) & !gpu & host=h[1-2] & cuda>=11 & (x & y)");
  ASSERT_TRUE(parsed) << refusal(parsed);
  ASSERT_EQ(parsed->size(), 7U);
  EXPECT_EQ((*parsed)[0], (Constraint{"zone", Constraint::Op::kIn, {"a", "b"}}));
  EXPECT_EQ((*parsed)[1].op, Constraint::Op::kMatches);
  EXPECT_EQ((*parsed)[1].values, (std::vector<std::string>{"ssd|nvme"}));
  EXPECT_EQ((*parsed)[2], (Constraint{"gpu", Constraint::Op::kAbsent, {}}));
  EXPECT_EQ((*parsed)[3], (Constraint{"host", Constraint::Op::kIn, {"h1", "h2"}}));
  EXPECT_EQ((*parsed)[4].values, (std::vector<std::string>{"cuda>=11"}));
  EXPECT_EQ((*parsed)[6], (Constraint{"y", Constraint::Op::kPresent, {}}));
  EXPECT_EQ(to_text(*parsed), "zone in (a,b)&(ssd|nvme)&!gpu&host in (h[1-2])&cuda>=11&x&y");
}

TEST(Expressions, AreRefusedWithThePlaceAndTheWayOut) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"a & ", "column 5: a label or '(' is missing"},
                                                                  {"(a|b", "column 5: ')' is missing"},
                                                                  {"a)", "column 2: ')' without a '('"},
                                                                  {"zone in a", "in (a,b)"},
                                                                  {"agent.memory > 1", "agent.cpus, agent.mem"},
                                                                  {"agent.mem > lots", "column 13"},
                                                                  {"agent.cpus ~ 6*", "this is a number"},
                                                                  {"count.gpu/ > -1", "whole number"},
                                                                  {"[r1|r2]", "--pack"},
                                                                  {"!a=b", "LABEL!=VALUE"},
                                                                  {"in (a)", "is written \"in\""},
                                                                  {"a = \"x", "'\"' is missing"},
                                                                  {"zone=a b", "'&', '|' or the end"},
                                                                  {"count.=1", "followed by"},
                                                                  {"a not b", "not in"},
                                                                  {"host=h[1-", "column 6"}};
  for (const auto& [text, part] : cases) {
    const auto parsed = parse_constraints(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code(), Code::kInvalid) << text;
    EXPECT_NE(refusal(parsed).find(part), std::string::npos) << text << ": " << refusal(parsed);
  }
}

TEST(Expressions, AreBounded) {
  const auto deep = [](std::size_t n) { return std::string(n, '(') + "a" + std::string(n, ')'); };
  EXPECT_TRUE(parse_constraints(deep(kNestingMax - 1)));
  EXPECT_EQ(parse_constraints(deep(kNestingMax + 1)).error().code(), Code::kLimit);
  EXPECT_EQ(parse_constraints(deep(30'000)).error().code(), Code::kLimit);
  EXPECT_EQ(parse_constraints(std::string(30'000, '!') + "a").error().code(), Code::kLimit);
  std::string wide = "a";
  for (std::size_t i = 1; i < kTermsMax; ++i) wide += "|a";
  EXPECT_TRUE(parse_constraints(wide));
  EXPECT_EQ(parse_constraints(wide + "|a").error().code(), Code::kLimit);
  EXPECT_EQ(parse_constraints("a=" + std::string(kExpressionBytesMax, 'x')).error().code(), Code::kLimit);
  EXPECT_FALSE(parse_constraints("a=" + std::string(kWordBytesMax + 1, 'x')));
  EXPECT_EQ(parse_constraints("b|host=h[1-1000000]").error().code(), Code::kLimit) << "an expression lists its hosts";
  EXPECT_TRUE(parse_constraints("b&host=h[1-100000]"));
  // The dearest there is: every pattern full of stars, against a value that never matches.
  const std::string pattern = [] {
    std::string p;
    while (p.size() + 2 < kWordBytesMax) p += "*a";
    return p + "b";
  }();
  std::string dear = "l~" + pattern;
  for (std::size_t i = 1; i < kTermsMax; ++i) dear += "|l~" + pattern;
  const auto term = parse_expression(dear);
  ASSERT_FALSE(term) << "it is over the limit of bytes";
  dear.resize(dear.rfind('|', kExpressionBytesMax - 1));
  const auto within = parse_expression(dear);
  ASSERT_TRUE(within) << refusal(within);
  struct One : Subject {
    std::string value = std::string(1000, 'a');
    const std::string* text(const std::string&) const override { return &value; }
    std::int64_t number(Term::Of, const std::string&) const override { return 0; }
  } one;
  std::uint64_t steps = 0;
  EXPECT_FALSE(holds(*within, one, &steps));
  EXPECT_GT(steps, one.value.size());
  EXPECT_LE(steps, kTermsMax * (1 + one.value.size() * kWordBytesMax));
}

// --- against other programs --------------------------------------------------------------------------------------------

TEST(Expressions, PatternsAreThoseOfFnmatch) {
  Rng rng(7);
  const auto word = [&](std::string_view letters, std::uint64_t most) {
    std::string out;
    for (std::uint64_t n = rng.between(0, most); n > 0; --n) out += letters[rng.between(0, letters.size() - 1)];
    return out;
  };
  for (int i = 0; i < 50'000; ++i) {
    const std::string text = word("ab", 9), pattern = word("ab*?", 7);
    ASSERT_EQ(like(text, pattern), fnmatch(pattern.c_str(), text.c_str(), FNM_NOESCAPE) == 0) << text << " ~ " << pattern;
  }
}

TEST(Expressions, VersionsAreInTheOrderOfDpkg) {
  if (std::system("dpkg --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "skipped: no dpkg on this machine";
  Rng rng(3);
  const auto version = [&] {
    std::string out(1, static_cast<char>('0' + rng.between(0, 9)));
    constexpr std::string_view kLetters = "0019.+~ab";
    for (std::uint64_t n = rng.between(0, 5); n > 0; --n) out += kLetters[rng.between(0, kLetters.size() - 1)];
    return out;
  };
  std::string script;
  std::vector<int> ours;
  for (int i = 0; i < 200; ++i) {
    const std::string a = version(), b = i % 10 == 0 ? "0" + a : version();
    const int order = version_order(a, b);
    script += std::string("dpkg --compare-versions '") + a + "' " +
              (order < 0   ? "lt"
               : order > 0 ? "gt"
                           : "eq") +
              " '" + b + "' || echo '" + a + "' '" + b + "'\n";
  }
  const std::string path = testing::TempDir() + "versions.sh";
  FILE* file = fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  fputs(script.c_str(), file);
  fclose(file);
  FILE* run = popen(("sh " + path + " 2>&1").c_str(), "r");
  char buffer[512];
  std::string out;
  while (fgets(buffer, sizeof buffer, run) != nullptr) out += buffer;
  pclose(run);
  std::remove(path.c_str());
  EXPECT_EQ(out, "");
}

TEST(Expressions, VersionOrderIsAnOrder) {
  Rng rng(5);
  std::vector<std::string> all;
  for (int i = 0; i < 60; ++i) {
    std::string v;
    for (std::uint64_t n = rng.between(0, 5); n > 0; --n) v += "0019.~+ab-"[rng.between(0, 9)];
    all.push_back(v);
  }
  for (const auto& a : all)
    for (const auto& b : all) {
      ASSERT_EQ(version_order(a, b), -version_order(b, a)) << a << " " << b;
      for (const auto& c : all) ASSERT_FALSE(version_order(a, b) <= 0 && version_order(b, c) <= 0 && version_order(a, c) > 0);
    }
}

// --- random expressions, against an evaluator of this test -------------------------------------------------------------

struct Made {
  std::string text;
  std::function<bool(const Labels&)> value;
};

class Maker {
 public:
  explicit Maker(Rng& rng) : rng_(rng) {}

  Made expression(int depth) {
    const std::uint64_t kind = depth == 0 ? 0 : rng_.between(0, 4);
    if (kind <= 1) return leaf();
    if (kind == 2) {
      Made a = expression(depth - 1);
      const std::string form = pick({"!(", "not (", "! ("});
      return {form + a.text + ")", [a](const Labels& l) { return !a.value(l); }};
    }
    const Made a = expression(depth - 1), b = expression(depth - 1);
    const std::string sign = kind == 3 ? pick({"&", " & ", "&&", ") and ("}) : pick({"|", " | ", "||", ") or ("});
    const std::string text = "((" + a.text + sign + b.text + "))";
    if (kind == 3) return {text, [a, b](const Labels& l) { return a.value(l) && b.value(l); }};
    return {text, [a, b](const Labels& l) { return a.value(l) || b.value(l); }};
  }

 private:
  std::string pick(std::initializer_list<const char*> list) { return *(list.begin() + rng_.between(0, list.size() - 1)); }

  Made leaf() {
    const std::string name = pick({"a", "b", "c"}), v = pick({"1", "2", "10", "x"}), w = pick({"1", "2", "10", "x"});
    const auto at = [name](const Labels& l) { return l.count(name) != 0 ? &l.at(name) : nullptr; };
    switch (rng_.between(0, 6)) {
      case 0:
        return {name, [at](const Labels& l) { return at(l) != nullptr; }};
      case 1:
        return {"!" + name, [at](const Labels& l) { return at(l) == nullptr; }};
      case 2:
        return {name + pick({"=", " = ", "=="}) + v, [at, v](const Labels& l) { return at(l) != nullptr && *at(l) == v; }};
      case 3:
        return {name + pick({"!=", " != "}) + v, [at, v](const Labels& l) { return at(l) == nullptr || *at(l) != v; }};
      case 4:
        return {name + pick({" in (", " in( "}) + v + ", " + w + ")",
                [at, v, w](const Labels& l) { return at(l) != nullptr && (*at(l) == v || *at(l) == w); }};
      case 5:
        return {name + pick({" notin (", " not in ("}) + v + "," + w + ")",
                [at, v, w](const Labels& l) { return at(l) == nullptr || (*at(l) != v && *at(l) != w); }};
      default: {
        const auto rank = [](const std::string& s) { return s == "x" ? 11 : std::stoi(s); };  // letters come after numbers
        return {name + pick({"<", " < "}) + v,
                [at, v, rank](const Labels& l) { return at(l) != nullptr && rank(*at(l)) < rank(v); }};
      }
    }
  }
  Rng& rng_;
};

TEST(Expressions, RandomOnesMeanWhatTheirPartsMeanAndRoundTrip) {
  Rng rng(11);
  Maker maker(rng);
  for (int i = 0; i < 3000; ++i) {
    const Made made = maker.expression(static_cast<int>(rng.between(0, 4)));
    const auto parsed = parse_constraints(made.text);
    ASSERT_TRUE(parsed) << refusal(parsed);
    const std::string normal = to_text(*parsed);
    const auto back = parse_constraints(normal);
    ASSERT_TRUE(back) << made.text << " -> " << normal << ": " << refusal(back);
    ASSERT_EQ(*back, *parsed) << made.text << " -> " << normal;
    ASSERT_EQ(to_text(*back), normal);
    for (int k = 0; k < 20; ++k) {
      Labels labels;
      for (const char* name : {"a", "b", "c"})
        if (rng.between(0, 2) != 0) labels[name] = std::array<const char*, 4>{"1", "2", "10", "x"}[rng.between(0, 3)];
      ASSERT_EQ(satisfies(labels, *parsed), made.value(labels)) << made.text;
    }
  }
}

TEST(Expressions, SurviveAnyBytes) {  // the same as tests/fuzz/expression_fuzz.cc, by mutation from a seed
  const std::vector<std::string> corpus = {
      "zone in (a,b)&(ssd|!nvme)&host notin (h[1-4,7])", "!(agent.mem>=64GiB|count.gpu/ in (1,2))",
      "\"and\" = \"a \\\"b\" or host ~ \"n*?\" and cuda>=11.8", "not (a&(b|!(c<9)))", "counter.mem>1&agent.cpus!=2.5&agent.numa=1"};
  Rng rng(13);
  int accepted = 0;
  for (int i = 0; i < 60'000; ++i) {
    std::string text = corpus[rng.between(0, corpus.size() - 1)];
    for (std::uint64_t n = rng.between(1, 6); n > 0 && !text.empty(); --n) {
      const std::size_t at = rng.between(0, text.size() - 1);
      switch (rng.between(0, 3)) {
        case 0:
          text.erase(at, rng.between(1, 4));
          break;
        case 1:
          text.insert(at, 1, "&|!()<>=~\"\\[],* ainot"[rng.between(0, 20)]);
          break;
        case 2:
          text[at] = static_cast<char>(rng.between(1, 255));
          break;
        default:
          text += text.substr(at, rng.between(1, 8));
      }
    }
    const auto parsed = parse_constraints(text);
    if (!parsed) continue;
    ++accepted;
    const std::string normal = to_text(*parsed);
    const auto back = parse_constraints(normal);
    ASSERT_TRUE(back) << text << " -> " << normal << ": " << refusal(back);
    ASSERT_EQ(*back, *parsed) << text << " -> " << normal;
    for (const Constraint& one : *parsed) {
      if (one.op != Constraint::Op::kMatches) continue;
      const auto again = make_constraint(one.label, one.op, one.values);
      ASSERT_TRUE(again) << one.values.front();
      ASSERT_EQ(*again, one) << text;
    }
  }
  EXPECT_GT(accepted, 3000);
}

// --- placement rules ---------------------------------------------------------------------------------------------------

TEST(Placements, RoundTripAndBadOnesAreRefused) {
  for (const char* text :
       {"spread zone", "spread zone:3", "prefer spread rack", "pack rack", "affinity host of store#db", "anti-affinity host",
        "prefer anti-affinity zone of #web", "affinity zone of org/team", "spread zone; prefer spread rack; anti-affinity host"}) {
    const auto parsed = parse_placements(text);
    ASSERT_TRUE(parsed) << refusal(parsed);
    EXPECT_EQ(to_text(*parsed), text);
  }
  EXPECT_EQ(parse_placements(" ")->size(), 0U);
  for (const char* text : {"spread", "spread zone:0", "spread zone:x", "zone", "pack rack of a", "affinity host of",
                           "affinity host of #", "spread zone rack", "pack .x", "spread zone;", "affinity host of a#b#c"})
    EXPECT_FALSE(parse_placements(text)) << text;
  std::string many = "spread zone";
  for (std::size_t i = 0; i < kPlacementsMax; ++i) many += ";spread zone";
  EXPECT_EQ(parse_placements(many).error().code(), Code::kLimit);
}

}  // namespace
}  // namespace bourse
