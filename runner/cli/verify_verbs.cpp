// diff and verify-resume: comparisons of two runs, and of a resumed with a straight run.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <map>
#include <memory>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include "core/base/activity.h"
#include "core/base/regular_file.h"
#include "core/base/text.h"
#include "runner/cli/checkpoints.h"
#include "runner/cli/cli.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/trial.h"
#include "track/record.h"
#include "train/recipe/recipe.h"
#include "train/recipe/recipe_diff.h"
#include "train/recipe/saved_recipe.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr auto kRecord = "/metrics.jsonl";

constexpr auto kRecipe = "/recipe.yaml";

Node recipe_of(const std::string& run) {
  std::ifstream in = open_regular_file(run + kRecipe);
  if (!in) {
    throw Error(ExitCode::kRecipe,
                accel::text("'{}' is not a run folder: it has no recipe.yaml", run),
                "give the folder that 'run' printed, such as runs/NAME");
  }
  std::ostringstream text;
  text << in.rdbuf();
  return parse_saved_recipe(run + kRecipe, text.str(), components());
}

/// Differences of two checkpoints of the same step.
struct CheckpointDifference {
  int64_t step = 0;
  std::vector<std::string> lines;
};

/// Differences of the newest checkpoints of a common step; nothing without one.
std::optional<CheckpointDifference> checkpoint_difference(const std::string& run_a,
                                                          const std::string& run_b) {
  DiskFiles files;
  const CheckpointStore a(files, run_a), b(files, run_b);
  std::map<int64_t, std::string> in_a;
  for (const CheckpointEntry& entry : a.list()) in_a[entry.step] = entry.path;
  const std::vector<CheckpointEntry> in_b = b.list();
  const auto common = std::find_if(in_b.rbegin(), in_b.rend(), [&](const CheckpointEntry& entry) {
    return in_a.contains(entry.step);
  });
  if (common == in_b.rend()) return std::nullopt;
  return CheckpointDifference{common->step,
                              differences(a.load(in_a[common->step]), b.load(common->path))};
}

/// "optimizer.lr is 0.1 and 0.2" for each option that differs.
std::vector<std::string> recipe_differences(const std::string& run_a, const std::string& run_b) {
  std::vector<std::string> out;
  for (const RecipeChange& change : diff_recipes(recipe_of(run_a), recipe_of(run_b),
                                                 RecipeOptions::schema().info(), Registry())) {
    const auto shown = [](const std::string& text) { return text.empty() ? "missing" : text; };
    out.push_back(change.key + " is " + shown(change.then) + " and " + shown(change.now));
  }
  return out;
}

volatile std::sig_atomic_t interrupted = 0;

/// Ctrl-C becomes an error, so that the temporary folders are removed.
void watch_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void require_no_signal() {
  if (interrupted) throw Error(ExitCode::kOther, "interrupted");
}

/// The run in a child process, which can be killed and shares only the disk with the next one. Its
/// output goes to a file.
class RunProcess {
 public:
  RunProcess(const RecipeArguments& arguments, const fs::path& dir, fs::path output)
      : output_(std::move(output)), process_(fork()) {
    if (process_ < 0) throw IoError("cannot start a process");
    if (process_ == 0) train_in_child(arguments, dir);
  }
  ~RunProcess() {
    if (process_ > 0) kill_now();
  }
  RunProcess(const RunProcess&) = delete;
  RunProcess& operator=(const RunProcess&) = delete;

  /// Kills the process once `path` exists, unless it ends first.
  void kill_at(const fs::path& path) {
    while (!fs::exists(path) && waitpid(process_, &status_, WNOHANG) == 0) {
      require_no_signal();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!fs::exists(path)) {
      process_ = -1;
      require_good_end();
      throw Error(ExitCode::kOther, "the run ended without writing the checkpoint");
    }
    kill_now();
  }

  /// Throws the error that the process printed, if it failed.
  void wait() {
    while (waitpid(process_, &status_, 0) < 0 && errno == EINTR) require_no_signal();
    require_no_signal();
    process_ = -1;
    require_good_end();
  }

 private:
  [[noreturn]] void train_in_child(const RecipeArguments& arguments, const fs::path& dir) const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!std::freopen(output_.c_str(), "w", stdout)) _exit(static_cast<int>(ExitCode::kIo));
    dup2(STDOUT_FILENO, STDERR_FILENO);
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    unsetenv("SLURM_JOB_END_TIME");
    int code = 0;
    try {
      code = static_cast<int>(run_trial(arguments, dir).code);
    } catch (const Error& error) {
      std::cerr << error.what() << (error.hint().empty() ? "" : "\n  hint: ") << error.hint()
                << '\n';
      code = static_cast<int>(error.code());
    } catch (const std::exception& error) {
      std::cerr << error.what() << '\n';
      code = static_cast<int>(ExitCode::kOther);
    }
    std::fflush(nullptr);
    _exit(code);
  }

  void kill_now() {
    kill(process_, SIGKILL);
    waitpid(process_, &status_, 0);
    process_ = -1;
  }

  void require_good_end() const {
    if (WIFEXITED(status_) && WEXITSTATUS(status_) == 0) return;
    std::ostringstream output;
    output << std::ifstream(output_).rdbuf();
    throw Error(WIFEXITED(status_) ? static_cast<ExitCode>(WEXITSTATUS(status_)) : ExitCode::kOther,
                text("the run failed; it printed:\n{}", output.str()));
  }

  fs::path output_;
  pid_t process_;
  int status_ = 0;
};

RecipeArguments with(RecipeArguments arguments, std::initializer_list<std::string> overrides) {
  arguments.overrides.insert(arguments.overrides.end(), overrides);
  return arguments;
}

/// "step 12: loss is 0.5 and 0.25", or nothing when the two runs are the same.
std::optional<std::string> first_quantity(const std::string& straight, const std::string& resumed,
                                          int64_t steps) {
  if (auto found = first_difference(straight + kRecord, resumed + kRecord)) return found;
  const auto checkpoints = checkpoint_difference(straight, resumed);
  if (!checkpoints || checkpoints->step != steps) return "the last checkpoint is missing in one";
  if (checkpoints->lines.empty()) return std::nullopt;
  return "at the end " + checkpoints->lines.front();
}

ExitCode verify_resume_verb(const RecipeArguments& arguments, int64_t steps) {
  const std::string half = std::to_string(steps), whole = std::to_string(2 * steps);
  const RecipeArguments straight = with(
      arguments, {"train.until=" + whole + " steps", "checkpoint.every=" + half + " steps",
                  "checkpoint.at_end=true", "checkpoint.resume=auto", "checkpoint.resume_step=auto",
                  "checkpoint.deadline=none", "~expect", "~profile"});
  load_runnable(straight);
  watch_signals();
  const ScratchFolder scratch;
  const fs::path one = scratch.path() / "straight", other = scratch.path() / "resumed";
  const fs::path output = scratch.path() / "output";
  {
    const Activity shown("running straight");
    RunProcess(straight, one, output).wait();
  }
  std::cout << "straight: " << whole << " steps\n" << std::flush;
  {
    const Activity shown("running to the checkpoint");
    RunProcess(with(straight, {"checkpoint.at_end=false", "~expect"}), other, output)
        .kill_at(other / "checkpoints" / ("checkpoint_" + half));
  }
  std::cout << "killed: after the checkpoint at step " << half << '\n' << std::flush;
  {
    const Activity shown("resuming");
    RunProcess(straight, other, output).wait();
  }
  std::cout << "resumed: to step " << whole << '\n';
  if (const auto quantity = first_quantity(one.string(), other.string(), 2 * steps)) {
    throw Error(ExitCode::kOther, text("'{}' does not resume exactly: {} (straight and resumed)",
                                       arguments.path, *quantity));
  }
  std::cout << "bit-identical: every step, every evaluation, the last checkpoint\n";
  return ExitCode::kDone;
}

/// Whether a difference of two recipes concerns only the name or the processes.
bool is_about_ranks(const std::string& line) {
  constexpr const char* kKeys[] = {"name is ",
                                   "accelerator.num_processes is ",
                                   "accelerator.num_machines is ",
                                   "accelerator.machine_rank is ",
                                   "accelerator.main_process_ip is ",
                                   "accelerator.main_process_port is "};
  return std::any_of(std::begin(kKeys), std::end(kKeys),
                     [&](const char* key) { return line.starts_with(key); });
}

ExitCode diff_verb(const std::string& first, const std::string& second) {
  const std::vector<std::string> recipe = recipe_differences(first, second);
  for (const std::string& line : recipe) std::cout << "recipe: " << line << '\n';
  const auto record = first_difference(first + kRecord, second + kRecord);
  if (record) std::cout << "record: " << *record << '\n';
  const auto checkpoints = checkpoint_difference(first, second);
  if (!checkpoints) {
    std::cout << "checkpoint: the two have none of the same step\n";
  } else {
    const std::string where = "checkpoint at step " + std::to_string(checkpoints->step) + ": ";
    for (const std::string& line : checkpoints->lines) std::cout << where << line << '\n';
  }
  const bool numbers = !record && checkpoints && checkpoints->lines.empty();
  if (numbers) std::cout << "bit-identical: every step, every evaluation, the checkpoint\n";
  const bool named = std::all_of(recipe.begin(), recipe.end(), &is_about_ranks);
  return numbers && named ? ExitCode::kDone : ExitCode::kOther;
}

}  // namespace

void add_verify_verbs(VerbTable& verbs) {
  struct VerifyArguments {
    RecipeArguments recipe;
    int64_t steps = 10;
  };
  const auto to = std::make_shared<VerifyArguments>();
  CLI::App& verify =
      verbs.add("verify-resume", "kill and resume a run, and compare it with a straight one",
                verbs.with_torch([to] { return verify_resume_verb(to->recipe, to->steps); }));
  verbs.add_recipe(verify, to->recipe, "a recipe");
  verify.add_option("--steps", to->steps, "steps before the kill, and after it; default: 10")
      ->check(CLI::Range(1, 1'000'000'000));
  struct DiffArguments {
    std::string first, second;
  };
  const auto runs = std::make_shared<DiffArguments>();
  CLI::App& diff =
      verbs.add("diff", "compare two runs",
                verbs.with_torch([runs] { return diff_verb(runs->first, runs->second); }));
  diff.add_option("first", runs->first, "a run folder")->required();
  diff.add_option("second", runs->second, "another run folder")->required();
}

}  // namespace accel
