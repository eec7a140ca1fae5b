// report and top.
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <iostream>

#include "core/log.h"
#include "runner/cli/terminal.h"
#include "runner/cli/verbs.h"
#include "runner/report/plan_table.h"
#include "runner/report/run_summary.h"
#include "runner/report/write_report.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// How long nothing was added to the record.
double quiet_seconds(const std::string& run) {
  std::error_code missing;
  const auto written = fs::last_write_time(run + "/metrics.jsonl", missing);
  if (missing) return 0;
  return std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
}

std::vector<FrameLine> picture(RunFollower& run, const std::string& folder, FrameSize size) {
  return top_frame(run.update(), size, std::time(nullptr), quiet_seconds(folder));
}

}  // namespace

ExitCode report_verb(const std::vector<std::string>& runs, const std::string& output) {
  const std::string page = write_report(runs, output);
  if (runs.size() == 1) {
    for (const std::string& line : plan_table_lines(read_run(runs.front()))) say(line);
  }
  say("wrote " + page);
  return ExitCode::kDone;
}

ExitCode top_verb(const std::string& run, bool once) {
  RunFollower follower(run);
  if (once || ::isatty(STDOUT_FILENO) == 0 || ::isatty(STDIN_FILENO) == 0) {
    for (const FrameLine& line : picture(follower, run, terminal_size())) {
      std::cout << line.text << '\n';
    }
    return ExitCode::kDone;
  }
  follower.update();  // what cannot be read is told on the screen that stays
  const Terminal terminal;
  constexpr int kMillisecondsBetween = 500;
  std::optional<char> key;
  while (key != Terminal::kEnd) {
    FrameSize size = terminal_size();
    --size.rows;
    std::vector<FrameLine> lines = picture(follower, run, size);
    lines.push_back({"q quits", FrameLine::Look::kFaint});
    terminal.draw(lines);
    key = terminal.wait(kMillisecondsBetween);
  }
  return ExitCode::kDone;
}

}  // namespace accel
