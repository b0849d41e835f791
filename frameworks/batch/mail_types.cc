#include <algorithm>
#include <array>
#include <utility>

#include "common/world/config.h"
#include "frameworks/batch/mail.h"

namespace bourse::batch {
namespace {

constexpr MailSet bits(std::initializer_list<MailOn> list) {
  MailSet out = 0;
  for (const MailOn on : list) out = static_cast<MailSet>(out | static_cast<MailSet>(on));
  return out;
}

constexpr std::array<std::pair<std::string_view, MailSet>, 13> kWords{{
    {"NONE", 0},
    {"BEGIN", bits({MailOn::kBegin})},
    {"END", bits({MailOn::kEnd})},
    {"FAIL", bits({MailOn::kFail})},
    {"REQUEUE", bits({MailOn::kRequeue})},
    {"INVALID_DEPEND", bits({MailOn::kInvalidDepend})},
    {"TIME_LIMIT", bits({MailOn::kTimeLimit})},
    {"TIME_LIMIT_90", bits({MailOn::kTimeLimit90})},
    {"TIME_LIMIT_80", bits({MailOn::kTimeLimit80})},
    {"TIME_LIMIT_50", bits({MailOn::kTimeLimit50})},
    {"ARRAY_TASKS", bits({MailOn::kArrayTasks})},
    {"STAGE_OUT", 0},  // of burst buffers, which there are none of
    {"ALL", bits({MailOn::kBegin, MailOn::kEnd, MailOn::kFail, MailOn::kRequeue, MailOn::kInvalidDepend})},
}};

}  // namespace

// What a header or an argument can bear: one line, and nothing that a terminal would act on.
std::string plain_text(std::string_view text, std::size_t most) {
  std::string out(text.substr(0, most));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return out;
}

std::string_view mail_word(MailOn on) {
  for (const auto& [word, set] : kWords)
    if (set == static_cast<MailSet>(on)) return word;
  return "";
}

Result<MailSet> parse_mail_types(std::string_view text) {
  MailSet out = 0;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    std::string word(part);
    std::transform(word.begin(), word.end(), word.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    const auto known = std::find_if(kWords.begin(), kWords.end(), [&](const auto& w) { return w.first == word; });
    if (known == kWords.end()) {
      std::vector<std::string> words;
      for (const auto& w : kWords) words.emplace_back(w.first);
      const std::string nearest = nearest_word(word, words);
      std::string all;
      for (const std::string& w : words) all += (all.empty() ? "" : ", ") + w;
      return Error(Code::kInvalid, "'" + plain_text(part, kMailNameMax) + "' is no --mail-type; " +
                                       (nearest.empty() ? "they are " + all : "did you mean " + nearest + "?"));
    }
    out = static_cast<MailSet>(out | known->second);
  }
  return out;
}

Result<> check_mail_address(std::string_view address) {
  constexpr std::string_view kGood = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,_%+@=-";
  if (address.empty()) return {};
  if (address.size() > kMailAddressMax || address.front() == '-' || address.find_first_not_of(kGood) != std::string_view::npos)
    return Error(Code::kInvalid, "--mail-user: '" + plain_text(address, kMailNameMax) +
                                     "' is no address; write a login or NAME@HOST of letters, digits and . _ % + = -");
  return {};
}

}  // namespace bourse::batch
