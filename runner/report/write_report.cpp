#include "runner/report/write_report.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "runner/report/compare_page.h"
#include "runner/report/run_page.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// Readers see the old file or the new one.
void replace_text(const std::string& path, const std::string& text) {
  const std::string draft = path + "." + std::to_string(::getpid()) + ".new";
  const auto fail = [&](int error) {
    std::error_code ignored;
    fs::remove(draft, ignored);
    throw IoError("cannot write '" + path + "': " + std::strerror(error));
  };
  errno = 0;
  std::ofstream out(draft, std::ios::binary);
  out << text;
  out.close();
  if (!out) fail(errno ? errno : EIO);
  std::error_code error;
  fs::rename(draft, path, error);
  if (error) fail(error.value());
}

}  // namespace

void write_own_report(const std::string& run_dir) {
  RunSummary run = read_run(run_dir);
  run.pulse = RunPulse::kNobody;
  replace_text(run_dir + "/report.html", run_page(run));
}

std::string write_report(const std::vector<std::string>& run_dirs, const std::string& path) {
  if (run_dirs.size() > 1 && path.empty()) {
    throw Error(ExitCode::kRecipe, "a report on several runs lies in no run's folder",
                "say where to write it: --output FILE.html");
  }
  std::vector<RunSummary> runs;
  for (const std::string& run_dir : run_dirs) runs.push_back(read_run(run_dir));
  const std::string target = path.empty() ? run_dirs.front() + "/report.html" : path;
  replace_text(target, runs.size() == 1 ? run_page(runs.front()) : compare_page(runs));
  return target;
}

}  // namespace accel
