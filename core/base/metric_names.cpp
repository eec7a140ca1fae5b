#include "core/base/metric_names.h"

#include <algorithm>
#include <array>
#include <utility>

namespace accel {

bool lower_is_better(const std::string& metric) {
  const std::string name = metric.substr(metric.rfind('/') + 1);
  const auto ends = {"loss", "perplexity", "mae", "mse", "rmse", "error"};
  return std::any_of(ends.begin(), ends.end(),
                     [&](const char* end) { return name.ends_with(end); });
}

std::string metric_title(const std::string& metric) {
  static constexpr std::array<std::pair<const char*, const char*>, 7> kTitles = {{
      {"train/loss", "Training loss"},
      {"train/lr", "Learning rate"},
      {"train/grad_norm", "Gradient norm"},
      {"train/samples_per_second", "Samples per second"},
      {"train/tokens_per_second", "Tokens per second"},
      {"memory_mib", "Memory, MiB"},
      {"system/memory_mib", "System memory, MiB"},
  }};
  for (const auto& [name, title] : kTitles) {
    if (metric == name) return title;
  }
  return metric;
}

}  // namespace accel
