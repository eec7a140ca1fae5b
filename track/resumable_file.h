// Append-only files of trackers, truncated to a checkpoint when a run resumes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/append_file.h"

namespace accel {

/// The step of a line (without its newline); null for an invalid line.
using StepOfLine = std::function<std::optional<int64_t>(std::string_view line)>;

/// Drops lines of steps after `last_step`, invalid lines and a truncated last line. Replaces the
/// file atomically; ignores pipes and missing files. Throws IoError.
/// With a `draft`, the new file is written there: for folders whose files are all read.
void rewind_lines(const std::string& path, int64_t last_step, const StepOfLine& step_of,
                  const std::string& draft = {});

/// Whether the file ends with a line of `step`; false for a missing file.
bool ends_with_step(const std::string& path, int64_t step, const StepOfLine& step_of);

/// One append-only file per metric, of which at most 500 are open. Failures are IoErrors.
class MetricFiles {
 public:
  /// `root`: the folder that must exist; folders inside it are created.
  explicit MetricFiles(std::string root) : root_(std::move(root)) {}

  /// The file at `path`; valid until the next call, which may close it.
  AppendFile& at(const std::string& path);
  void flush(Flush how);

 private:
  std::string root_;
  std::map<std::string, std::unique_ptr<AppendFile>> open_;
  std::set<std::string> unsynced_;  ///< closed since the last durable flush
};

/// A file that a resumed run truncates to its checkpoint: its size is among Tracker::ids().
/// Failures are IoErrors.
class ResumableFile {
 public:
  /// Opens a new file; an existing one is replaced.
  void create(const std::string& path);
  /// Truncates the file to `bytes` and opens it. False when it is missing or shorter.
  bool resume(const std::string& path, uint64_t bytes);
  void append(std::string_view bytes);
  void flush(Flush how) { file_->flush(how); }
  /// Size of the file once the buffer is written.
  uint64_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<AppendFile> file_;
  uint64_t bytes_ = 0;
};

}  // namespace accel
