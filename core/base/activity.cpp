#include "core/base/activity.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <utility>

#include "core/base/console.h"
#include "core/base/log.h"
#include "core/base/terminal.h"

namespace accel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenDraws(100);
constexpr std::chrono::seconds kBetweenLines(10);
/// Shorter tasks print no line.
constexpr double kShort = 0.5;

/// The state of the display; guarded by console_mutex().
struct Display {
  ProgressStyle style = ProgressStyle::kAuto;
  Activity* innermost = nullptr;
  Clock::time_point drawn = {};
  bool is_drawn = false;
};

Display& display() {
  static Display instance;
  return instance;
}

/// The terminal to draw on; -1: none. The ranks of a launcher have their standard output only.
int drawing_fd() {
  const ProgressStyle style = display().style;
  if (style == ProgressStyle::kNone || style == ProgressStyle::kLines) return -1;
  if (is_silent() || verbosity() == Verbosity::kQuiet) return -1;
  for (const int fd : {STDERR_FILENO, STDOUT_FILENO}) {
    if (is_terminal(fd)) return fd;
  }
  return -1;
}

bool prints_lines() {
  return display().style == ProgressStyle::kLines && !is_silent() &&
         verbosity() != Verbosity::kQuiet;
}

void put(int fd, const std::string& text) {
  std::FILE* stream = fd == STDOUT_FILENO ? stdout : stderr;
  std::fputs(text.c_str(), stream);
  std::fflush(stream);
}

constexpr auto kErase = "\r\033[K";

}  // namespace

void choose_progress(ProgressStyle style) {
  display().style = style;
}

bool has_progress_terminal() {
  return is_terminal(STDERR_FILENO) || is_terminal(STDOUT_FILENO);
}

Activity::Activity(std::string what, std::string unit) {
  const std::lock_guard lock(console_mutex());
  is_shown_ = prints_lines() || drawing_fd() >= 0;
  task_.what = std::move(what);
  task_.unit = std::move(unit);
  outer_ = std::exchange(display().innermost, this);
  if (!outer_) set_line_hook(&Activity::on_line);
  redraw(true);
}

Activity::~Activity() {
  const std::lock_guard lock(console_mutex());
  const double taken = seconds();
  redraw(false);
  display().innermost = outer_;
  if (!outer_) set_line_hook(nullptr);
  if (!task_.what.empty()) print_time(taken);
  redraw(true);
}

double Activity::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

bool Activity::is_due() const {
  if (!is_shown_) return false;
  const std::lock_guard lock(console_mutex());
  const auto now = Clock::now();
  if (prints_lines()) return now - printed_ >= kBetweenLines;
  return now - display().drawn >= kBetweenDraws;
}

void Activity::progress(int64_t done, int64_t total) {
  if (first_done_ < 0) {
    first_done_ = done;
    first_time_ = Clock::now();
  }
  if (!is_due()) return;
  TaskProgress task{.what = task_.what, .done = done, .total = total, .unit = task_.unit};
  const double since = std::chrono::duration<double>(Clock::now() - first_time_).count();
  const double rate = since > 0 ? static_cast<double>(done - first_done_) / since : 0;
  const bool is_plural = task.unit.ends_with('s');
  const std::string unit = is_plural ? task.unit.substr(0, task.unit.size() - 1) : task.unit;
  if (!unit.empty()) task.rates = {rate_text(rate, unit)};
  task.elapsed = seconds();
  if (rate > 0 && total > done) task.left = static_cast<double>(total - done) / rate;
  show(std::move(task));
}

void Activity::show(TaskProgress task) {
  const std::lock_guard lock(console_mutex());
  if (!is_due()) return;
  task_ = std::move(task);
  if (prints_lines()) print_line();
  if (display().innermost == this) redraw(true);
}

void Activity::print_time(double seconds) const {
  std::array<char, 32> time;
  std::snprintf(time.data(), time.size(), ": %.2f s", seconds);
  if (prints_lines() && seconds >= kShort) put(STDERR_FILENO, task_.what + time.data() + "\n");
  say_note("  " + task_.what + time.data());
}

void Activity::print_line() {
  printed_ = Clock::now();
  put(STDERR_FILENO, plain_progress(task_) + "\n");
}

void Activity::on_line(bool draw) {
  // The launcher of a rank may still be relaying the line: the next show() draws below it.
  const bool relayed = draw && drawing_fd() == STDOUT_FILENO;
  if (relayed) display().drawn = {};
  if (!relayed) redraw(draw);
}

void Activity::redraw(bool draw) {
  Display& to = display();
  const int fd = drawing_fd();
  if (fd < 0) return;
  if (std::exchange(to.is_drawn, false)) put(fd, kErase);
  if (!draw || !to.innermost) return;
  const int columns = terminal_size(fd).columns - 1;  // a full line would wrap
  const ProgressLine line = progress_line(to.innermost->task_, columns, has_unicode());
  const std::string bar = line.text.substr(line.bar, line.bar_bytes);
  put(fd, line.text.substr(0, line.bar) +
              (is_colored(fd) && !bar.empty() ? inked(Ink::kBar, bar) : bar) +
              line.text.substr(line.bar + line.bar_bytes));
  to.is_drawn = true;
  to.drawn = Clock::now();
}

}  // namespace accel
