#include "train/loop/plan_check.h"

#include <cmath>

#include "core/base/formatted.h"
#include "track/system_metrics.h"
#include "train/job/build_streaming.h"

namespace accel {
namespace {

constexpr double kMebibyte = 1 << 20;

/// " parameters, as planned" or " parameters, planned 12".
std::string versus_plan(int64_t planned, int64_t actual) {
  if (planned == actual) return " parameters, as planned";
  return " parameters, planned " + std::to_string(planned);
}

}  // namespace

std::vector<Measurement> PlanCheck::planned(const Forecast& forecast) {
  std::vector<Measurement> values = {{"parameters", static_cast<double>(forecast.parameters)},
                                     {"flops", forecast.flops}};
  if (forecast.memory > 0) {
    values.emplace_back("memory_mib",
                        std::round(static_cast<double>(forecast.memory) / kMebibyte * 10) / 10);
  }
  if (forecast.step_seconds > 0) values.emplace_back("step_seconds", forecast.step_seconds);
  return values;
}

std::optional<std::string> PlanCheck::look(const Job& job, int64_t step, int64_t steps,
                                           const Stopwatch& watch) const {
  if (!forecast_ || steps == 0) return std::nullopt;
  int64_t parameters = frozen_memory(job).elements;
  for (const Parameter& item : job.parameters) parameters += item.numel();
  const double seconds = (watch.total() - watch.seconds(Phase::kEval) -
                          watch.seconds(Phase::kSave) - watch.seconds(Phase::kOther)) /
                         static_cast<double>(steps);
  std::vector<Measurement> values = {{"parameters", static_cast<double>(parameters)},
                                     {"step_seconds", seconds},
                                     {"steps", static_cast<double>(steps)}};
  std::string line = std::to_string(parameters) + versus_plan(forecast_->parameters, parameters);
  const std::optional<double> memory = peak_resident_mib();
  if (memory && forecast_->memory > 0) {
    values.emplace_back("memory_mib", std::round(*memory * 10) / 10);
    const double planned = static_cast<double>(forecast_->memory) / kMebibyte;
    line += formatted("; memory %.1f MiB, planned %.1f MiB (x %.2f)", *memory, planned,
                      *memory / planned);
  }
  if (forecast_->step_seconds > 0) {
    line += formatted("; a step %.4g s, planned %.4g s (x %.2f)", seconds, forecast_->step_seconds,
                      seconds / forecast_->step_seconds);
  } else {
    line += formatted("; a step %.4g s, %.4g GFLOP/s", seconds, forecast_->flops / seconds / 1e9);
  }
  record_->actual(step, values);
  return line;
}

}  // namespace accel
