// A view as Prometheus text, exposition format 0.0.4: names and units by https://prometheus.io/docs/practices/naming/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/core/time.h"
#include "common/core/units.h"
#include "frameworks/console/view.h"

namespace bourse::console {

// Writes the format. A family's samples follow its head; counters end in _total, and nothing else does (an assertion).
class MetricsText {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string_view>>;
  void gauge(std::string_view name, std::string_view help) { family(name, "gauge", help); }
  void counter(std::string_view name, std::string_view help) { family(name, "counter", help); }
  void sample(std::uint64_t value, const Labels& labels = {});
  void sample_decimal(std::int64_t value, int decimals, const Labels& labels = {});  // 3500, 3: 3.5
  void sample(MilliCpus cpus, const Labels& labels = {}) { sample_decimal(cpus.value, 3, labels); }
  void sample(Bytes bytes, const Labels& labels = {}) { sample_decimal(bytes.value, 0, labels); }
  void sample(Duration duration, const Labels& labels = {}) { sample_decimal(duration.count(), 6, labels); }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void family(std::string_view name, std::string_view type, std::string_view help);
  std::string text_;
  std::string_view name_;
};

// The console's own figures, which are there without a master too.
struct Health {
  bool connected = false;
  std::string error;
  Duration age{0};  // of the view; not looked at where there is none
  Duration interval{0};
  std::uint64_t rounds = 0, failures = 0, requests = 0, refused = 0, cut = 0, connections = 0;
  // Old data would look as if it were of now: it is shown with its age, but not measured.
  [[nodiscard]] bool stale(const View& view) const {
    return view.number == 0 || age > std::max(interval, view.took * 10) * 3 + seconds(10);
  }
};

// Of more than `agents_max` agents only sums.
std::string metrics_text(const View& view, const JobsView& jobs, const Health& health, std::size_t agents_max);

}  // namespace bourse::console
