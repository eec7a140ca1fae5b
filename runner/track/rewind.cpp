#include "runner/track/rewind.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "runner/track/append_file.h"

namespace accel {
namespace {

/// Calls `keep` with each whole line to be kept; false when something was left out.
bool each_kept_line(const std::string& path, int64_t last_step, const StepOfLine& step_of,
                    const std::function<void(std::string_view)>& keep) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw IoError("cannot read '" + path + "': " + std::strerror(errno));
  bool all = true;
  std::string line;
  while (std::getline(in, line)) {
    const bool torn = in.eof();  // the newline is missing
    const std::optional<int64_t> step = torn ? std::nullopt : step_of(line);
    if (step && *step <= last_step) {
      keep(line);
    } else {
      all = false;
    }
  }
  if (in.bad()) throw IoError("cannot read '" + path + "': " + std::strerror(errno));
  return all;
}

}  // namespace

void rewind_lines(const std::string& path, int64_t last_step, const StepOfLine& step_of) {
  std::error_code unreadable;  // whoever opens it next reports that
  if (!std::filesystem::is_regular_file(path, unreadable)) return;  // nothing, a pipe, a device
  if (each_kept_line(path, last_step, step_of, [](std::string_view) {})) return;
  replace_file(path, [&](AppendFile& file) {
    each_kept_line(path, last_step, step_of, [&](std::string_view line) {
      file.append(line);
      file.append("\n");
    });
  });
}

}  // namespace accel
