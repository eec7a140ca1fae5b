// One run that every tracker gets: killed after a checkpoint, resumed from it, finished.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/track/run_in.h"

namespace accel {

using TrackerNames = std::map<std::string, std::string>;

inline void log_steps(Tracker& tracker, int64_t first, int64_t last, double scale) {
  for (int64_t step = first; step <= last; ++step) {
    tracker.log(step, std::vector<Measurement>{{"train/loss", scale / static_cast<double>(step)}});
    tracker.flush(Flush::kReadable);
  }
}

inline const ConfigValues& run_config() {
  static const ConfigValues values = {
      {"optimizer.lr", "0.001"}, {"train.deterministic", "true"}, {"model.type", "mlp"}};
  return values;
}

inline TrackerContext resumed_context(const std::string& run_dir, int64_t step, TrackerNames ids) {
  TrackerContext context = run_in(run_dir, step);
  context.ids = std::move(ids);
  context.git = {"0123456789abcdef0123456789abcdef01234567", "main", "https://example.com/code"};
  return context;
}

/// Steps 1 to 120, a checkpoint at 100 and no end. Returns what the checkpoint keeps.
inline TrackerNames first_life(const std::string& yaml, const std::string& run_dir) {
  const auto tracker = build<Tracker>(yaml, resumed_context(run_dir, 0, {}));
  tracker->config(run_config());
  tracker->text(1, "note", "**bold** \xc3\xa9 \xff");
  tracker->log(1, std::vector<Measurement>{{"train/nan", std::nan("")}});
  tracker->image(1, "sample", {2, 3, 1, {0, 50, 100, 150, 200, 250}});
  std::vector<float> weights;
  for (int i = 0; i < 1000; ++i) weights.push_back(static_cast<float>((i - 300) * 0.01));
  tracker->histogram(1, "weights", weights);
  log_steps(*tracker, 1, 100, 1.0);
  tracker->log(100, std::vector<Measurement>{{"eval/accuracy", 0.5}});
  tracker->flush(Flush::kDurable);
  TrackerNames ids = tracker->ids();
  log_steps(*tracker, 101, 120, 3.0);
  return ids;
}

/// From the checkpoint at step 100 to step 150, and a good end.
inline void second_life(const std::string& yaml, const std::string& run_dir,
                        const TrackerNames& ids) {
  const auto tracker = build<Tracker>(yaml, resumed_context(run_dir, 100, ids));
  tracker->config(run_config());
  log_steps(*tracker, 101, 150, 2.0);
  tracker->finish(RunStatus::kFinished);
}

}  // namespace accel
