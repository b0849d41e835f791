// How an ended job ended, in sentences: what `bourse why` says of it. Pure.
#pragma once

#include <string>
#include <vector>

#include "frameworks/batch/job.h"
#include "frameworks/batch/protocol.h"

namespace bourse::batch {

constexpr std::size_t kEndingsTold = 5;  // tasks of one array that are told one by one

// "it ended FAILED: exit code 3", and where and how long it ran.
std::vector<std::string> how_it_ended(const JobInfo& job);
// Of a job, or of an array's tasks, as the history knows them: not empty, or `code` is kNotFound.
WhyReply explain_end(const JobReply& ended);

}  // namespace bourse::batch
