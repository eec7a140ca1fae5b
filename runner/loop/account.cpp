#include "runner/loop/account.h"

#include <unistd.h>

#include <algorithm>

#include "core/build_info.h"
#include "core/log.h"
#include "runner/job/torch_setup.h"
#include "runner/launch/machine_facts.h"
#include "runner/loop/report.h"
#include "runner/report/write_report.h"
#include "runner/track/git_state.h"

namespace accel {

std::vector<Measurement> plan_of(const Job& job) {
  double every_steps = 0, every_seconds = 0;
  const auto least = [](double known, double more) {
    return known > 0 ? std::min(known, more) : more;
  };
  for (const Duration& every : job.recipe.checkpoint.every) {
    if (every.unit == Duration::Unit::kSeconds) {
      every_seconds = least(every_seconds, every.value);
    } else {
      const int64_t steps = std::max<int64_t>(1, job.length.steps(every));
      every_steps = least(every_steps, static_cast<double>(steps));
    }
  }
  return {{"total_steps", static_cast<double>(job.length.total_steps)},
          {"steps_per_epoch", static_cast<double>(job.length.steps_per_epoch)},
          {"batch", static_cast<double>(job.batches.batch)},
          {"ranks", static_cast<double>(job.group->world())},
          {"save_every_steps", every_steps},
          {"save_every_seconds", every_seconds}};
}

ConfigValues about(const Job& job) {
  const BuildInfo build = build_info();
  std::string version(build.version);
  version.append(" (").append(build.commit).append(")");
  ConfigValues out = job_facts(job);
  out.emplace_back("accel-run", version);
  for (const auto& [name, value] : environment_facts()) out.emplace_back(name, value);
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) == 0) out.emplace_back("host", host);
  for (const auto& [name, value] : machine_facts()) out.emplace_back(name, value);
  const GitState git = git_state(".");
  if (!git.commit.empty()) out.emplace_back("git commit", git.commit);
  if (!git.branch.empty()) out.emplace_back("git branch", git.branch);
  return out;
}

void record_beginning(const Job& job, const Beginning& beginning, RunRecord& record) {
  record.event(beginning.step, beginning.resumed ? "resume" : "start", beginning.text);
  for (const RecipeChange& change : beginning.changes) {
    const auto shown = [](const std::string& text) { return text.empty() ? "missing" : text; };
    record.event(beginning.step, "changed",
                 change.key + " was " + shown(change.then) + ", is " + shown(change.now));
  }
  std::vector<Measurement> plan = plan_of(job);
  if (beginning.forecast) {
    for (Measurement& value : PlanCheck::planned(*beginning.forecast)) {
      plan.push_back(std::move(value));
    }
  }
  record.plan(beginning.step, plan);
  record.about(beginning.step, about(job));
  record.flush();
}

std::string report_on(const std::string& run_dir) try {
  write_own_report(run_dir);
  return run_dir + "/report.html";
} catch (const std::exception& error) {
  warn(std::string("there is no report of the run: ") + error.what());
  return "";
}

}  // namespace accel
