// A persistent queue of lines for a server.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/append_file.h"
#include "core/base/owned_fd.h"
#include "track/resumable_file.h"

namespace accel {

/// The file keeps all lines; FILE.sent has two offsets: of acknowledged and of attempted lines.
/// Attempted lines survive every resume unchanged, so that sending one again creates no duplicate.
class Outbox {
 public:
  /// Drops lines after `last_step` that were never attempted. Without one the file starts empty.
  Outbox(std::string path, std::optional<int64_t> last_step, const StepOfLine& step_of);
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  const std::string& path() const { return path_; }
  void append(const std::string& line) {
    file_->append(line + '\n');
    ++unsent_;
    flushed_ = false;
  }
  void flush(Flush how);

  /// Visits every line on the disk, sent ones first.
  void each(const std::function<void(const std::string& line)>& visit) const;
  /// Lines that are not acknowledged.
  size_t unsent() const { return unsent_; }
  /// Whether there are unsent lines and all are on the disk.
  bool ready() const { return unsent_ > 0 && flushed_; }
  /// The first unsent lines, in order, while `take` returns true.
  std::vector<std::string> first(const std::function<bool(const std::vector<std::string>& taken,
                                                          const std::string& next)>& take) const;
  /// Records that the first `lines` are about to be sent.
  void sending(const std::vector<std::string>& lines);
  /// Records that they are acknowledged, or rejected for good.
  void done(const std::vector<std::string>& lines);

 private:
  void load_offsets();
  void save_offsets();
  void rewind(std::optional<int64_t> last_step, const StepOfLine& step_of);
  void count_unsent();

  std::string path_;
  OwnedFd offsets_;            ///< FILE.sent
  uint64_t acknowledged_ = 0;  ///< bytes
  uint64_t attempted_ = 0;     ///< bytes
  size_t unsent_ = 0;
  bool flushed_ = true;
  std::unique_ptr<AppendFile> file_;
};

}  // namespace accel
