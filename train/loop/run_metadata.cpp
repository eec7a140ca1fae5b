#include "train/loop/run_metadata.h"

#include <unistd.h>

#include <algorithm>

#include "core/base/build_info.h"
#include "core/base/hardware_info.h"
#include "core/base/log.h"
#include "track/git_state.h"
#include "train/job/torch_setup.h"
#include "train/loop/report.h"

namespace accel {

std::vector<Measurement> plan_of(const Job& job) {
  double every_steps = 0, every_seconds = 0;
  const auto shorter = [](double known, double more) {
    return known > 0 ? std::min(known, more) : more;
  };
  for (const Duration& every : job.recipe.checkpoint.every) {
    if (every.unit == Duration::Unit::kSeconds) {
      every_seconds = shorter(every_seconds, every.value);
    } else {
      const int64_t steps = std::max<int64_t>(1, job.length.steps(every));
      every_steps = shorter(every_steps, static_cast<double>(steps));
    }
  }
  return {{"total_steps", static_cast<double>(job.length.total_steps)},
          {"steps_per_epoch", static_cast<double>(job.length.steps_per_epoch)},
          {"batch", static_cast<double>(job.batches.batch)},
          {"ranks", static_cast<double>(job.num_ranks)},
          {"save_every_steps", every_steps},
          {"save_every_seconds", every_seconds}};
}

ConfigValues about(const Job& job) {
  const BuildInfo build = build_info();
  std::string version(build.version);
  version.append(" (").append(build.commit).append(")");
  ConfigValues out = job_summary(job);
  out.emplace_back("accel-run", version);
  for (const auto& [name, value] : environment_info()) out.emplace_back(name, value);
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) == 0) out.emplace_back("host", host);
  for (const auto& [name, value] : hardware_info()) out.emplace_back(name, value);
  const GitState git = git_state(".");
  if (!git.commit.empty()) out.emplace_back("git commit", git.commit);
  if (!git.branch.empty()) out.emplace_back("git branch", git.branch);
  return out;
}

void record_run_start(const Job& job, const RunStart& start, RunRecord& record) {
  record.event(start.step, start.resumed ? "resume" : "start", start.text);
  for (const RecipeChange& change : start.changes) {
    const auto shown = [](const std::string& text) { return text.empty() ? "missing" : text; };
    record.event(start.step, "changed",
                 change.key + " was " + shown(change.then) + ", is " + shown(change.now));
  }
  std::vector<Measurement> plan = plan_of(job);
  if (start.forecast) {
    for (Measurement& value : PlanCheck::planned(*start.forecast)) {
      plan.push_back(std::move(value));
    }
  }
  record.plan(start.step, plan);
  record.about(start.step, about(job));
  record.flush();
}

}  // namespace accel
