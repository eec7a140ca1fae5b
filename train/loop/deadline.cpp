#include "train/loop/deadline.h"

#include <algorithm>
#include <chrono>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/scalar.h"

namespace accel {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

const double process_start = now();

}  // namespace

Deadline::Deadline(const std::optional<Duration>& given) {
  if (given) end_ = process_start + given->value;
  const std::string slurm = environment_variable("SLURM_JOB_END_TIME").value_or("");
  if (slurm.empty()) return;
  const auto end = parse_integer({slurm}).value;
  if (!end) {
    throw Error(ExitCode::kRecipe,
                text("SLURM_JOB_END_TIME is '{}', not seconds since 1970", slurm),
                "unset it, or set 'checkpoint.deadline'");
  }
  end_ = std::min(end_, static_cast<double>(*end));
}

double Deadline::seconds_left() const {
  return end_ - now();
}

}  // namespace accel
