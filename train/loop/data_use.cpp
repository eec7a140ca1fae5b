#include "train/loop/data_use.h"

#include <cstdio>
#include <numeric>

#include "core/base/log.h"
#include "data/datasets/skipped_samples.h"

namespace accel {
namespace {

constexpr const char* kSkipped = "data/left_out";

/// The epoch of the last step: at the end of an epoch, the one that ended.
int64_t epoch_of(const Progress& progress) {
  return progress.step_in_epoch == 0 && progress.epoch > 0 ? progress.epoch - 1 : progress.epoch;
}

}  // namespace

std::vector<Measurement> data_use(const Job& job, const Progress& progress) {
  Loader& loader = *job.train_loader;
  const int64_t epoch = epoch_of(progress);
  const int64_t steps = epoch < progress.epoch ? loader.steps_per_epoch() : progress.step_in_epoch;
  const std::vector<int64_t> drawn = loader.drawn(epoch, steps);
  const auto all = static_cast<double>(std::accumulate(drawn.begin(), drawn.end(), int64_t{0}));
  std::vector<Measurement> values;
  for (size_t i = 0; all > 0 && i < drawn.size(); ++i) {
    values.emplace_back("data/share_" + std::to_string(i + 1), static_cast<double>(drawn[i]) / all);
  }
  const int64_t skipped = left_out(loader.dataset());
  if (skipped > 0) values.emplace_back(kSkipped, static_cast<double>(skipped));
  return values;
}

std::string data_use_line(const Progress& progress, const std::vector<Measurement>& values) {
  std::string line = "data of epoch " + std::to_string(epoch_of(progress) + 1);
  int number = 0;
  for (const auto& [name, value] : values) {
    char text[64];
    if (name == kSkipped) {
      std::snprintf(text, sizeof text, "  %.0f skipped", value);
    } else {
      std::snprintf(text, sizeof text, "  dataset %d %.1f %%", ++number, value * 100);
    }
    line += text;
  }
  return line;
}

void log_data_use(const LoopContext& context, const Progress& progress) {
  const std::vector<Measurement> values = data_use(context.job, progress);
  if (values.empty()) return;
  context.check_folder();
  say(data_use_line(progress, values));
  context.trackers.log(progress.step, values);
  context.record.log(progress.step, values);
}

}  // namespace accel
