// Which requests the history's thread may have to answer, and that nothing in the bytes of one harms who looks.
#include "frameworks/batch/peek.h"

#include <gtest/gtest.h>

#include <memory>

#include "frameworks/batch/protocol.h"

namespace bourse::batch {
namespace {

std::string bytes_of(RequestBody body) { return encode(ToolRequest{kBatchProtocol, 7, std::move(body)}); }

TEST(Peek, TellsWhatAsksThePastFromTheRest) {
  EXPECT_TRUE(may_ask_the_past(bytes_of(JobRequest{{JobId(5), ""}, true})));
  EXPECT_TRUE(may_ask_the_past(bytes_of(HistoryRequest{})));
  EXPECT_TRUE(may_ask_the_past(bytes_of(WhyRequest{{JobId(5), ""}})));
  SubmitRequest submit;
  submit.items.resize(3);
  for (const RequestBody& body :
       {RequestBody(submit), RequestBody(QueueRequest{}), RequestBody(CancelRequest{}), RequestBody(ChangeRequest{}),
        RequestBody(NodesRequest{}), RequestBody(WatchRequest{}), RequestBody(SummaryRequest{}), RequestBody(StepRequest{})})
    EXPECT_FALSE(may_ask_the_past(bytes_of(body)));
  for (const std::string& garbage :
       {std::string(), std::string("x"), std::string(7, '\0'), std::string(100, '\xff'), std::string(100, '\0')})
    EXPECT_FALSE(may_ask_the_past(garbage));
}

TEST(Peek, AgreesWithTheDecoderOnDamagedRequestsAndReadsNoByteBeyond) {
  const std::string whole = bytes_of(JobRequest{{JobId(5), "1-3"}, true});
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const auto cut = std::make_unique<char[]>(size);  // so that a sanitizer sees a step too far
    std::copy_n(whole.begin(), size, cut.get());
    const bool asks = may_ask_the_past({cut.get(), size});
    EXPECT_TRUE(asks || !decode_request({cut.get(), size})) << size;
  }
  std::uint64_t state = 1;
  for (int i = 0; i < 20'000; ++i) {
    std::string bent = whole;
    for (int n = 0; n < 3; ++n) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      bent[(state >> 33) % bent.size()] = static_cast<char>(state >> 25);
    }
    const bool asks = may_ask_the_past(bent);
    const auto request = decode_request(bent);
    if (!request) continue;
    EXPECT_EQ(asks, std::holds_alternative<JobRequest>(request->body) || std::holds_alternative<HistoryRequest>(request->body) ||
                        std::holds_alternative<WhyRequest>(request->body));
  }
}

}  // namespace
}  // namespace bourse::batch
