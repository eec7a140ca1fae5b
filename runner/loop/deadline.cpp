#include "runner/loop/deadline.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "core/error.h"
#include "core/scalar.h"

namespace accel {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

const double process_start = now();

}  // namespace

Deadline::Deadline(const std::optional<Duration>& given) {
  if (given) end_ = process_start + given->value;
  const char* slurm = std::getenv("SLURM_JOB_END_TIME");
  if (!slurm || !*slurm) return;
  const auto end = parse_integer({slurm}).value;
  if (!end) {
    throw Error(ExitCode::kRecipe,
                "SLURM_JOB_END_TIME is '" + std::string(slurm) + "', not seconds since 1970",
                "unset it, or set 'checkpoint.deadline'");
  }
  end_ = std::min(end_, static_cast<double>(*end));
}

double Deadline::seconds_left() const {
  return end_ - now();
}

}  // namespace accel
