// report, top and ctl.
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include <CLI/CLI.hpp>

#include "core/base/log.h"
#include "core/base/terminal.h"
#include "core/base/text.h"
#include "runner/cli/cli.h"
#include "runner/report/report.h"
#include "runner/report/run_summary.h"
#include "runner/report/run_tables.h"
#include "runner/report/top_frame.h"
#include "train/control/control_box.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

volatile std::sig_atomic_t terminal_ended = 0;

void note_end(int /*signal*/) {
  terminal_ended = 1;
}

/// Only interrupts poll(): the size is read before each frame.
void note_window(int /*signal*/) {}

void on_signal(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

void put(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data() + at, text.size() - at);
    if (count < 0 && errno != EINTR) {
      terminal_ended = 1;  // the terminal was closed
      return;
    }
    at += static_cast<size_t>(std::max<ssize_t>(0, count));
  }
}

std::string with_look(const FrameLine& line) {
  if (!is_colored(STDOUT_FILENO) || line.look == FrameLine::Look::kPlain) return line.text;
  return inked(line.look == FrameLine::Look::kTitle ? Ink::kTitle
               : line.look == FrameLine::Look::kBad ? Ink::kError
                                                    : Ink::kFaint,
               line.text);
}

FrameSize frame_size() {
  const TerminalSize size = terminal_size(STDOUT_FILENO);
  // Output in a file may be read anywhere.
  return {size.columns, size.rows, ::isatty(STDOUT_FILENO) == 0 || has_unicode()};
}

/// Full-screen mode of the terminal of standard input and output, which the destructor restores. A
/// terminating signal ends wait() instead of the process. One at a time.
class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void draw(const std::vector<FrameLine>& lines) const;
  /// A key; nothing after `milliseconds` or a resize; kEnd at the end.
  static constexpr char kEnd = 'q';
  std::optional<char> wait(int milliseconds) const;

 private:
  termios before_ = {};
};

Terminal::Terminal() {
  ::tcgetattr(STDIN_FILENO, &before_);
  termios raw = before_;
  // Ctrl-C and Ctrl-Z arrive as keys, so that the screen is always restored.
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) on_signal(signal, &note_end);
  on_signal(SIGWINCH, &note_window);
  put("\033[?1049h\033[?25l");
}

Terminal::~Terminal() {
  put("\033[?25h\033[?1049l");
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

void Terminal::draw(const std::vector<FrameLine>& lines) const {
  // Drawn over the previous frame, so that the screen does not flicker.
  std::string out = "\033[H";
  for (size_t i = 0; i < lines.size(); ++i) {
    out.append(i > 0 ? "\r\n" : "").append(with_look(lines[i])).append("\033[K");
  }
  put(out + "\033[J");
}

std::optional<char> Terminal::wait(int milliseconds) const {
  if (terminal_ended) return kEnd;
  pollfd keys = {STDIN_FILENO, POLLIN, 0};
  const int ready = ::poll(&keys, 1, milliseconds);
  if (terminal_ended) return kEnd;
  if (ready <= 0) return std::nullopt;
  char key = 0;
  const ssize_t count = ::read(STDIN_FILENO, &key, 1);
  if (count <= 0) return kEnd;
  constexpr char kControlC = 3;
  return key == kControlC ? kEnd : key;
}

/// Seconds since the last write to the record.
double quiet_seconds(const std::string& run) {
  std::error_code missing;
  const auto written = fs::last_write_time(run + "/metrics.jsonl", missing);
  if (missing) return 0;
  return std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
}

std::vector<FrameLine> draw_frame(RunFollower& run, const std::string& folder, FrameSize size) {
  return top_frame(run.update(), size, std::time(nullptr), quiet_seconds(folder));
}

ExitCode report_verb(const std::vector<std::string>& runs, const std::string& output) {
  const std::string page = write_report(runs, output);
  if (runs.size() == 1) {
    for (const std::string& line : plan_table_lines(read_run(runs.front()))) say(line);
  }
  say(text("wrote {}", page));
  return ExitCode::kDone;
}

ExitCode top_verb(const std::string& run, bool once) {
  RunFollower follower(run);
  if (once || ::isatty(STDOUT_FILENO) == 0 || ::isatty(STDIN_FILENO) == 0) {
    for (const FrameLine& line : draw_frame(follower, run, frame_size())) {
      std::cout << line.text << '\n';
    }
    return ExitCode::kDone;
  }
  follower.update();  // read errors are reported before the screen is taken
  const Terminal terminal;
  constexpr int kMillisecondsBetween = 500;
  std::optional<char> key;
  while (key != Terminal::kEnd) {
    FrameSize size = frame_size();
    --size.rows;
    std::vector<FrameLine> lines = draw_frame(follower, run, size);
    lines.push_back({"q quits", FrameLine::Look::kFaint});
    terminal.draw(lines);
    key = terminal.wait(kMillisecondsBetween);
  }
  return ExitCode::kDone;
}

constexpr auto kNoneApplied = "none of the commands is applied";
const std::vector<std::string> kCommands = {"eval", "pause", "resume", "save", "stop"};

void check_command(const std::string& command) {
  if (command.find('\n') != std::string::npos) {
    throw Error(ExitCode::kRecipe, "a command has more than one line",
                "give each command as a separate argument");
  }
  if (command.find('=') != std::string::npos) return;  // checked by the run
  if (std::find(kCommands.begin(), kCommands.end(), command) != kCommands.end()) return;
  throw Error(ExitCode::kRecipe, text("'{}' is not a command to a run", command),
              "give save, eval, stop, pause, resume or an option such as lr=1e-4");
}

void check_wait(double seconds) {
  constexpr double kMost = 1e9;  // the range of a clock in nanoseconds
  if (seconds > 0 && seconds <= kMost) return;
  std::ostringstream found;
  found << seconds;
  throw Error(ExitCode::kRecipe,
              text("'--wait' must be above 0 seconds and at most 1e9, not {}", found.str()),
              "leave it out to wait for 60 seconds");
}

/// Throws Error when the run is not running.
void check_running(const std::string& run) {
  const RunSummary summary = read_run(run);
  const RunStanding standing = summary.standing();
  if (standing == RunStanding::kRunning || standing == RunStanding::kPaused ||
      standing == RunStanding::kUnknown) {
    return;
  }
  throw Error(ExitCode::kOther,
              standing == RunStanding::kCrashed ? text("the run in '{}' has crashed", run)
                                                : text("the run in '{}' has ended", run),
              text("resume with: accel-run resume {}", run));
}

ControlAnswer wait_for_answer(const std::string& run, std::string command, const std::string& id,
                              double seconds) {
  std::replace(command.begin(), command.end(), '\n', ' ');
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  constexpr std::chrono::milliseconds kBetweenLooks(50);
  constexpr int kLooksBetweenChecks = 20;
  for (int looks = 1; Clock::now() < end; ++looks) {
    if (auto answer = take_answer(run, id)) return *answer;
    std::this_thread::sleep_for(kBetweenLooks);
    if (looks % kLooksBetweenChecks != 0) continue;
    try {
      check_running(run);
    } catch (const Error&) {
      if (auto answer = take_answer(run, id)) return *answer;
      withdraw_command(run, id);
      std::error_code none;
      if (std::filesystem::exists(run, none)) throw;
      throw IoError(text("the run folder '{}' was removed or moved before the run answered", run),
                    "give the folder where it is now");
    }
  }
  const bool withdrawn = withdraw_command(run, id);
  throw Error(ExitCode::kTimeout,
              withdrawn
                  ? text("the run did not start '{}' in time; the command is withdrawn", command)
                  : text("the run has not finished '{}' in time", command),
              text("a step, an evaluation or a save may take long: watch it with 'accel-run top "
                   "{}', or give '--wait' more seconds",
                   run));
}

ExitCode ctl_verb(const std::string& run, const std::vector<std::string>& commands, double wait) {
  check_wait(wait);
  for (const std::string& command : commands) check_command(command);
  check_running(run);
  const std::string lines = joined(commands, "\n");
  const ControlAnswer answer = wait_for_answer(run, lines, post_command(run, lines), wait);
  if (!answer.done) {
    const size_t line = std::min(answer.text.find('\n'), answer.text.size());
    std::string hint = line < answer.text.size() ? answer.text.substr(line + 1) : "";
    if (commands.size() > 1) hint += (hint.empty() ? "" : "; ") + std::string(kNoneApplied);
    throw Error(ExitCode::kRecipe, answer.text.substr(0, line), hint);
  }
  say(answer.text);
  return ExitCode::kDone;
}

}  // namespace

void add_view_verbs(VerbTable& verbs) {
  struct ReportArguments {
    std::vector<std::string> runs;
    std::string output;
  };
  const auto page = std::make_shared<ReportArguments>();
  CLI::App& report = verbs.add("report", "write an HTML report on a run, or compare several",
                               [page] { return report_verb(page->runs, page->output); });
  report.add_option("runs", page->runs, "run folders, finished or not")->required();
  report.add_option("--output", page->output, "the file; default: report.html in the run folder");
  struct TopArguments {
    std::string run;
    bool once = false;
  };
  const auto to = std::make_shared<TopArguments>();
  CLI::App& top = verbs.add("top", "show the progress of a run in the terminal",
                            [to] { return top_verb(to->run, to->once); });
  top.add_option("run", to->run, "a run folder")->required();
  top.add_flag("--once", to->once, "print once and exit");
}

void add_ctl_verb(VerbTable& verbs) {
  struct ControlArguments {
    std::string run;
    std::vector<std::string> commands;
    double wait = 60;  ///< seconds
  };
  const auto to = std::make_shared<ControlArguments>();
  CLI::App& verb = verbs.add("ctl", "send a command to a running job",
                             [to] { return ctl_verb(to->run, to->commands, to->wait); });
  verb.add_option("run", to->run, "a run folder")->required();
  verb.add_option("commands", to->commands, "save, eval, stop, pause, resume, or key=value")
      ->required();
  verb.add_option("--wait", to->wait, "seconds to wait for an answer; default: 60");
}

}  // namespace accel
