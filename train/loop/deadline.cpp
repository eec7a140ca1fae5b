#include "train/loop/deadline.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "core/base/command_output.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/scalar.h"

namespace accel {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

const double process_start = now();

constexpr auto kScontrolTime = std::chrono::seconds(5);
constexpr std::string_view kEndTime = "EndTime=";

}  // namespace

std::optional<double> end_time_in(const std::string& shown) {
  const size_t begin = shown.find(kEndTime);
  if (begin == shown.npos) return std::nullopt;
  std::tm time = {};
  time.tm_isdst = -1;
  if (!::strptime(shown.c_str() + begin + kEndTime.size(), "%Y-%m-%dT%H:%M:%S", &time)) {
    return std::nullopt;
  }
  const std::time_t seconds = std::mktime(&time);
  return seconds < 0 ? std::nullopt : std::optional(static_cast<double>(seconds));
}

SlurmEnd slurm_end(const EnvironmentLookup& lookup, bool ask) {
  const std::string variable = lookup("SLURM_JOB_END_TIME").value_or("");
  if (!variable.empty()) {
    const auto end = parse_integer({variable}).value;
    if (end) return {static_cast<double>(*end), ""};
    throw Error(ExitCode::kRecipe,
                text("SLURM_JOB_END_TIME is '{}', not seconds since 1970", variable),
                "unset it, or set 'checkpoint.deadline'");
  }
  const std::string job = lookup("SLURM_JOB_ID").value_or("");
  if (job.empty() || !ask) return {};
  const std::string shown =
      command_output({"scontrol", "show", "job", job}, kScontrolTime).value_or("");
  const std::optional<double> end = end_time_in(shown);
  if (!end) return {std::nullopt, text("the end of the Slurm job {} is unknown", job)};
  const std::string when = shown.substr(shown.find(kEndTime) + kEndTime.size(), 19);
  return {end, text("the Slurm job {} ends at {}, as scontrol reports", job, when)};
}

Deadline::Deadline(const std::optional<Duration>& given, bool ask_slurm) {
  if (given) end_ = process_start + given->value;
  SlurmEnd slurm = slurm_end(&environment_variable, ask_slurm);
  if (slurm.seconds) end_ = std::min(end_, *slurm.seconds);
  note_ = std::move(slurm.note);
}

double Deadline::seconds_left() const {
  return end_ - now();
}

}  // namespace accel
