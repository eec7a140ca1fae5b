// Lines for a server, on the disk until it has taken them and beyond.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runner/track/append_file.h"
#include "runner/track/rewind.h"

namespace accel {

/// The file keeps all lines; a second file beside it says how many were taken by the server and how
/// many it may have seen. What it may have seen stays what it is in every later life of the run, so
/// that sending it again is no second entry.
class Outbox {
 public:
  /// Goes on after `first_step` steps: later lines that the server cannot have seen are dropped. At
  /// 0 the file starts empty.
  Outbox(std::string path, int64_t first_step, const StepOfLine& step_of);
  ~Outbox();
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  const std::string& path() const { return path_; }
  void append(const std::string& line) {
    file_->append(line + '\n');
    ++unsent_;
    flushed_ = false;
  }
  void flush(Flush how);

  /// Every line on the disk, the sent ones first.
  void each(const std::function<void(const std::string& line)>& visit) const;
  /// Lines that were appended and not taken yet.
  size_t unsent() const { return unsent_; }
  /// Whether there are lines that may be sent: they are on the disk.
  bool ready() const { return unsent_ > 0 && flushed_; }
  /// The first unsent lines, in order, as long as `take` wants them.
  std::vector<std::string> first(const std::function<bool(const std::vector<std::string>& taken,
                                                          const std::string& next)>& take) const;
  /// The server is about to see the first `lines`; call it before they leave.
  void sending(const std::vector<std::string>& lines);
  /// It has taken them, or will never.
  void done(const std::vector<std::string>& lines);

 private:
  void load_marks();
  void save_marks();
  void rewind(int64_t first_step, const StepOfLine& step_of);
  void count_unsent();

  std::string path_;
  int marks_ = -1;     ///< descriptor of the second file
  uint64_t done_ = 0;  ///< bytes taken
  uint64_t seen_ = 0;  ///< bytes that were ever on their way
  size_t unsent_ = 0;
  bool flushed_ = true;
  std::unique_ptr<AppendFile> file_;
};

}  // namespace accel
