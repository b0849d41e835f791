#include "frameworks/cli/table.h"

#include <gtest/gtest.h>

#include "frameworks/cli/job_text.h"

namespace bourse::cli {
namespace {

struct Pet {
  std::string name;
  int age;
};

const std::vector<Field<Pet>> kFields = {
    {"name", 'j', "NAME", [](const Pet& p) { return p.name; }},
    {"age", 'a', "AGE", [](const Pet& p) { return std::to_string(p.age); }, true, true},
};

std::string print(const std::string& format, const std::vector<Pet>& pets, bool header = true) {
  auto columns = parse_format(format, field_names(kFields));
  return columns ? print_rows(kFields, *columns, pets, header) : columns.error().text();
}

TEST(Table, NamedColumnsAreAsWideAsNeeded) {
  EXPECT_EQ(print("name,age", {{"Rex", 3}, {"Bartholomew", 12}}), "NAME         AGE\nRex          3\nBartholomew  12\n");
}

TEST(Table, PercentFormatsCutAndAlignAsSlurmDoes) {
  EXPECT_EQ(print("%.8j|%3a|", {{"Bartholomew", 7}}, false), "Bartholo|7  |\n");
  EXPECT_EQ(print("%.6j %.4a", {{"Rex", 3}}), "  NAME  AGE\n   Rex    3\n");
}

TEST(Table, UnknownFieldsNameTheNearest) {
  EXPECT_EQ(print("nme", {}), "there is no field `nme'; did you mean name?");
  EXPECT_EQ(print("%z", {}), "there is no field %z");
  EXPECT_EQ(print("%", {}), "the format ends after %");
}

TEST(Table, JsonIsQuoted) {
  EXPECT_EQ(json_rows(kFields, {{"a\"b\\\n\x01", 1}}, "pets"),
            "{\"pets\": [\n  {\"name\": \"a\\\"b\\\\\\n\\u0001\", \"age\": 1}\n]}\n");
  EXPECT_EQ(json_rows(kFields, {}, "pets"), "{\"pets\": []}\n");
}

TEST(JobText, TimestampsRoundTrip) {
  const Duration t = seconds(1'800'000'000);
  auto back = parse_timestamp(timestamp(t), t);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, t);
  EXPECT_EQ(*parse_timestamp("now-2h", t), t - std::chrono::hours(2));
  EXPECT_FALSE(parse_timestamp("yesterdayish", t));
}

TEST(JobText, ListsKeepBracketsTogether) {
  EXPECT_EQ(split_list({"1,2_[3,5-7],4", "9"}), (std::vector<std::string>{"1", "2_[3,5-7]", "4", "9"}));
}

}  // namespace
}  // namespace bourse::cli
