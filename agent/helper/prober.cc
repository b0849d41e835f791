#include "agent/helper/prober.h"

#include "common/world/log.h"

namespace bourse {

Prober::Prober(Reactor& reactor, const std::string& helper, ProbeInputs inputs)
    : reactor_(reactor), runner_(reactor, helper), inputs_(std::move(inputs)) {}

void Prober::run(const RunProbe& action, const Post& post) {
  if (auto known = primed_.extract(action.probe); !known.empty())
    return reactor_.defer([post, probe = action.probe, inventory = std::move(known.mapped())]() mutable {
      post(ProbeDone{probe, std::move(inventory), {}});
    });
  const auto input = inputs_.find(action.probe);
  if (input == inputs_.end())
    return reactor_.defer([post, probe = action.probe] { post(ProbeDone{probe, {}, "there is no such probe"}); });
  if (const ProbeInfo* info = find_probe(action.probe); info != nullptr && !worth_running(*info, input->second))
    return reactor_.defer([post, probe = action.probe] { post(ProbeDone{probe, {}, {}}); });
  runner_.run(action.probe, input->second, action.limit, [post, probe = action.probe](HelperResult result) {
    log_event(LogLevel::kDebug, "probe_ran",
              {{"probe", probe},
               {"took", format_duration(result.took)},
               {"result", result.report ? "ok" : result.report.error().text()}});
    if (!result.report) return post(ProbeDone{probe, {}, result.report.error().text()});
    post(ProbeDone{probe, std::move(result.report->inventory), {}});
  });
}

}  // namespace bourse
