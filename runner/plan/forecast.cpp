#include "runner/plan/forecast.h"

#include <algorithm>
#include <filesystem>

#include "core/log.h"
#include "runner/job/torch_setup.h"
#include "runner/report/run_summary.h"
#include "runner/track/system_metrics.h"

namespace accel {
namespace {

constexpr double kMebibyte = 1 << 20;

/// Bytes of this process besides the job's weights: libtorch and the opened data.
int64_t bytes_besides(const Job& job, double resident) {
  double weights = 0;
  for (const auto* list : {&job.parameters, &job.buffers}) {
    for (const NamedTensor& item : *list) weights += static_cast<double>(item.tensor.nbytes());
  }
  return static_cast<int64_t>(std::max(0.0, resident * kMebibyte - weights));
}

}  // namespace

double known_step_seconds(const std::string& run_dir, const BatchPlan& batches) {
  if (!std::filesystem::exists(run_dir + "/metrics.jsonl")) return 0;
  const RunSummary run = read_run(run_dir);
  const bool same = run.planned("batch") == static_cast<double>(batches.batch) &&
                    run.planned("ranks") == static_cast<double>(batches.world);
  if (!same || run.last_use == 0) return 0;
  double seconds = 0;
  for (const auto& [phase, value] : run.seconds) {
    if (phase != "eval" && phase != "save" && phase != "other") seconds += value;
  }
  return seconds / static_cast<double>(run.last_use);
}

std::optional<Forecast> forecast(const Job& job, const std::string& run_dir) {
  const std::optional<double> resident = resident_mib();
  const int64_t cores = threads();
  const DataFacts data{job.data, job.train_samples, job.eval_samples};
  std::optional<Plan> made;
  try {
    made = make_plan(job.recipe, job.resolved, job.registry, data, job.batches.world);
  } catch (const std::exception& error) {
    warn(std::string("the run goes without a plan: ") + error.what());
  }
  set_threads(cores);
  if (!made) return std::nullopt;
  const Plan& plan = *made;
  Forecast out;
  out.parameters = plan.parameters;
  out.flops = plan.flops;
  out.step_seconds = known_step_seconds(run_dir, job.batches);
  if (resident && job.device.is_cpu()) {
    out.memory = bytes_besides(job, *resident) + plan.memory.total();
  }
  return out;
}

}  // namespace accel
