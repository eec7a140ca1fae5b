// diff and verify-resume: whether two runs are the same, and whether a resumed one is.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <thread>

#include "runner/cli/load_recipe.h"
#include "runner/cli/run_diff.h"
#include "runner/cli/trial.h"
#include "runner/cli/verbs.h"
#include "runner/track/record_diff.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr auto kRecord = "/metrics.jsonl";

volatile std::sig_atomic_t interrupted = 0;

/// Ctrl-C must not leave the runs' folders behind: it becomes an error, which unwinds.
void watch_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void require_no_signal() {
  if (interrupted) throw Error(ExitCode::kOther, "interrupted");
}

/// A life of the run: a process of its own, so that it can be killed, and that the next one has
/// nothing of it but the disk. Its output goes to a file.
class Life {
 public:
  Life(const RecipeArguments& arguments, const fs::path& dir, fs::path output)
      : output_(std::move(output)), process_(fork()) {
    if (process_ < 0) throw IoError("cannot start a process");
    if (process_ == 0) live(arguments, dir);
  }
  ~Life() {
    if (process_ > 0) kill_now();
  }
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  /// Kills it as soon as `path` is there; or lets it end, if that comes first.
  void kill_at(const fs::path& path) {
    while (!fs::exists(path) && waitpid(process_, &status_, WNOHANG) == 0) {
      require_no_signal();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!fs::exists(path)) {
      process_ = -1;
      require_good_end();
      throw Error(ExitCode::kOther, "the run ended without the checkpoint that was to be made");
    }
    kill_now();
  }

  /// Throws the error that it printed, if it failed.
  void wait() {
    while (waitpid(process_, &status_, 0) < 0 && errno == EINTR) require_no_signal();
    require_no_signal();
    process_ = -1;
    require_good_end();
  }

 private:
  [[noreturn]] void live(const RecipeArguments& arguments, const fs::path& dir) const {
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
                "the run failed; it printed:\n" + output.str());
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

}  // namespace

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
  Life(straight, one, output).wait();
  std::cout << "straight: " << whole << " steps\n" << std::flush;
  Life(with(straight, {"checkpoint.at_end=false", "~expect"}), other, output)
      .kill_at(other / "checkpoints" / ("checkpoint_" + half));
  std::cout << "killed: after the checkpoint at step " << half << '\n' << std::flush;
  Life(straight, other, output).wait();
  std::cout << "resumed: to step " << whole << '\n';
  if (const auto quantity = first_quantity(one.string(), other.string(), 2 * steps)) {
    throw Error(ExitCode::kOther, "'" + arguments.path + "' does not resume exactly: " + *quantity +
                                      " (straight and resumed)");
  }
  std::cout << "equal to the last bit: every step, every evaluation, the last checkpoint\n";
  return ExitCode::kDone;
}

namespace {

/// Whether a difference of two recipes only says what a run is called, or where it runs.
bool says_where(const std::string& line) {
  constexpr const char* kKeys[] = {"name is ",
                                   "accelerator.num_processes is ",
                                   "accelerator.num_machines is ",
                                   "accelerator.machine_rank is ",
                                   "accelerator.main_process_ip is ",
                                   "accelerator.main_process_port is "};
  return std::any_of(std::begin(kKeys), std::end(kKeys),
                     [&](const char* key) { return line.starts_with(key); });
}

}  // namespace

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
  if (numbers) std::cout << "equal to the last bit: every step, every evaluation, the checkpoint\n";
  const bool named = std::all_of(recipe.begin(), recipe.end(), &says_where);
  return numbers && named ? ExitCode::kDone : ExitCode::kOther;
}

}  // namespace accel
