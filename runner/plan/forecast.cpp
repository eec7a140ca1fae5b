#include "runner/plan/forecast.h"

#include <algorithm>
#include <deque>
#include <fstream>

#include "core/base/log.h"
#include "core/base/regular_file.h"
#include "core/base/text.h"
#include "kernels/memory/caching_allocator.h"
#include "runner/plan/fake_tensor_mode.h"
#include "runner/report/run_summary.h"
#include "track/system_metrics.h"
#include "train/job/torch_setup.h"

namespace accel {
namespace {

constexpr double kMebibyte = 1 << 20;

/// The step time of a run from its last intervals. Lines of steps are skipped without parsing, so
/// that long records are fast to read.
class Pace {
 public:
  explicit Pace(const BatchPlan& batches) : batches_(batches) {}

  void add(const std::string& text) {
    const bool plan = text.find(",\"plan\":{") != text.npos;
    if (!plan && text.find(",\"use\":{") == text.npos) return;
    const std::optional<RecordLine> line = read_record_line(text);
    if (!line) return;
    if (line->kind == RecordLine::Kind::kPlan && !is_same(*line)) intervals_.clear();
    if (line->kind == RecordLine::Kind::kUse) add_use(*line);
    before_ = line->step;
  }

  /// 0: unknown.
  double step_seconds() const {
    double seconds = 0;
    int64_t steps = 0;
    for (const auto& [taken, made] : intervals_) {
      seconds += taken;
      steps += made;
    }
    return steps > 0 ? seconds / static_cast<double>(steps) : 0;
  }

 private:
  bool is_same(const RecordLine& plan) {
    const auto value = [&](const std::string& key) {
      for (const auto& [name, number] : plan.values) {
        if (name == key) return number;
      }
      return 0.0;
    };
    same_ = value("batch") == static_cast<double>(batches_.batch) &&
            value("ranks") == static_cast<double>(batches_.world);
    return same_;
  }

  void add_use(const RecordLine& line) {
    constexpr size_t kMost = 100;
    if (!same_ || line.step < before_) return;
    double seconds = 0;
    for (const auto& [name, value] : line.values) {
      const bool step = name.starts_with("time/") && name != "time/eval" && name != "time/save" &&
                        name != "time/other";
      if (step) seconds += value;
    }
    intervals_.emplace_back(seconds, line.step - before_);
    if (intervals_.size() > kMost) intervals_.pop_front();
  }

  const BatchPlan& batches_;
  std::deque<std::pair<double, int64_t>> intervals_;
  int64_t before_ = 0;  ///< first step of the next interval
  bool same_ = false;
};

}  // namespace

double known_step_seconds(const std::string& run_dir, const BatchPlan& batches) {
  Pace pace(batches);
  std::ifstream record = open_regular_file(run_dir + "/metrics.jsonl");
  for (std::string line; std::getline(record, line);) pace.add(line);
  return pace.step_seconds();
}

std::optional<Forecast> forecast(const Job& job, const std::string& run_dir) {
  if (job.swapper) {
    // Buffers of the blocks that were written to the disk while the model was built.
    job.swapper->drain();
    give_back_freed_memory();
  }
  const std::optional<double> resident = resident_mib();
  const int64_t cores = threads();
  const DataSchema data{job.data, job.train_samples, job.eval_samples};
  std::optional<Plan> made;
  try {
    constexpr double kMostSeconds = 2;
    const FakeTimeLimit limit(kMostSeconds);
    made = make_plan(job.recipe, job.resolved, job.registry, data, job.num_ranks);
  } catch (const std::exception& error) {
    say(text("no forecast of the run: {}", error.what()));
  }
  set_threads(cores);
  if (!made) return std::nullopt;
  const Plan& plan = *made;
  Forecast out;
  out.parameters = plan.parameters;
  out.flops = plan.flops;
  out.step_seconds = known_step_seconds(run_dir, job.batches);
  if (resident && job.device.is_cpu()) {
    // The job's tensors are already part of the process and also of the plan.
    const auto process = static_cast<int64_t>(*resident * kMebibyte) - plan.built_bytes;
    out.memory = std::max<int64_t>(0, process) + kTorchRuntimeBytes + plan.rank_0_memory.total();
  }
  return out;
}

}  // namespace accel
