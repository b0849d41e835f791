// W3C Trace Context, level 1: the examples and rules of https://www.w3.org/TR/trace-context-1/#traceparent-header.
#include "common/core/span.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace bourse {
namespace {

constexpr const char* kExample = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(Traceparent, TheExampleOfTheStandardIsReadAndWritten) {
  const auto context = parse_traceparent(kExample);
  ASSERT_TRUE(context);
  EXPECT_EQ(trace_id_text(*context), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(span_id_text(context->span), "00f067aa0ba902b7");
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(to_traceparent(*context), kExample);
  const auto other = parse_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->sampled);
}

TEST(Traceparent, OtherFlagsAreIgnoredAndNotSentOn) {
  const auto context = parse_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-09");
  ASSERT_TRUE(context);
  EXPECT_EQ(to_traceparent(*context), kExample);
}

TEST(Traceparent, ALaterVersionIsReadAsThisOne) {
  EXPECT_TRUE(parse_traceparent("cc-12345678901234567890123456789012-1234567890123456-01"));
  EXPECT_TRUE(parse_traceparent("cc-12345678901234567890123456789012-1234567890123456-01-what-the-future-will-be-like"));
  EXPECT_FALSE(parse_traceparent("cc-12345678901234567890123456789012-1234567890123456-01.what-the-future-will-be-like"));
}

TEST(Traceparent, WhatTheStandardCallsInvalidIsNone) {
  for (const char* text :
       {"", "00", "00-", "ff-12345678901234567890123456789012-1234567890123456-01",
        "00-00000000000000000000000000000000-1234567890123456-01", "00-12345678901234567890123456789012-0000000000000000-01",
        "00-1234567890123456789012345678901-1234567890123456-01", "00-123456789012345678901234567890123-1234567890123456-01",
        "00-12345678901234567890123456789012-123456789012345-01", "00-12345678901234567890123456789012-1234567890123456-1",
        "00-12345678901234567890123456789012-1234567890123456-01-more", "00-12345678901234567890123456789012-1234567890123456-01 ",
        "00-1234567890123456789012345678901A-1234567890123456-01", "00-1234567890123456789012345678901.-1234567890123456-01",
        "00_12345678901234567890123456789012-1234567890123456-01", "0x-12345678901234567890123456789012-1234567890123456-01"})
    EXPECT_FALSE(parse_traceparent(text)) << text;
}

TEST(Spans, HaveIdsOfWhatTheyAreAbout) {
  const TraceContext trace = new_trace("site/batch/17/1796034641123456");
  EXPECT_TRUE(trace);
  EXPECT_TRUE(parse_traceparent(to_traceparent(trace)));
  EXPECT_EQ(trace, new_trace("site/batch/17/1796034641123456")) << "the same after a restart";
  const TraceContext queue = span_of(trace, "queue"), again = span_of(queue, "queue");
  EXPECT_EQ(queue, again) << "whichever span of the trace one has";
  EXPECT_EQ(trace_id_text(queue), trace_id_text(trace));
  std::set<std::string> seen;
  std::size_t sampled = 0;
  for (int i = 0; i < 20'000; ++i) {
    const TraceContext one = new_trace("site/batch/" + std::to_string(i));
    seen.insert(trace_id_text(one));
    seen.insert(span_id_text(one.span));
    seen.insert(span_id_text(span_of(one, "queue").span));
    if (is_sampled(one, 250)) ++sampled;
    EXPECT_TRUE(is_sampled(one, 1000));
    EXPECT_FALSE(is_sampled(one, 0));
  }
  EXPECT_EQ(seen.size(), 60'000U) << "no two alike";
  EXPECT_NEAR(static_cast<double>(sampled), 5000.0, 300.0) << "a quarter, within five standard deviations";
}

}  // namespace
}  // namespace bourse
