// Command channel into a running process: files in `control/` of the run folder.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace accel {

/// The file `ID.command` has a line for each command, of which all are applied or none; the run
/// removes it and writes its answer to `ID.done` or `ID.refused`. The file `open` exists while the
/// run accepts commands. Only the run's owner has access.
struct ControlCommand {
  std::string id;
  std::string text;
};

/// The run's end of the channel.
class ControlBox {
 public:
  /// Empties the folder, since older commands were for another process. Throws IoError.
  explicit ControlBox(const std::string& run_dir);
  /// Refuses pending commands and closes the channel.
  ~ControlBox();
  ControlBox(const ControlBox&) = delete;
  ControlBox& operator=(const ControlBox&) = delete;

  /// Whether a command may be pending: reads the folder at most five times a second.
  bool waiting();
  /// The oldest command, or nullopt. An unreadable one is refused.
  std::optional<ControlCommand> take();
  /// A failure to write the answer is a warning.
  void answer(const ControlCommand& command, bool done, const std::string& text) const;

 private:
  std::vector<std::string> commands() const;

  std::string folder_;
  ino_t open_ = 0;  ///< stamp of `open`
  std::chrono::steady_clock::time_point looked_;
  bool seen_ = false;  ///< a command was pending at the last look
};

struct ControlAnswer {
  bool done = false;
  /// The result of each command, a line each; or the reason for the refusal and a hint on the next
  /// line.
  std::string text;
};

/// Sends commands to the run in `run_dir` and returns their id. Throws Error when the run accepts
/// none, and IoError.
std::string post_command(const std::string& run_dir, const std::string& text);

/// The run's answer, removed from the folder; nullopt until there is one.
std::optional<ControlAnswer> take_answer(const std::string& run_dir, const std::string& id);

/// Withdraws pending commands. False: the run has taken them already.
bool withdraw_command(const std::string& run_dir, const std::string& id);

}  // namespace accel
