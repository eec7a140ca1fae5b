// One rank as a process.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "runner/launch/supervisor.h"

namespace accel {

/// How to start one. What is not handed over is closed on exec.
struct RankStart {
  std::string program;
  std::vector<std::string> argv;
  std::vector<std::string> environment;  ///< all of it, as NAME=value
  std::vector<int> handed;               ///< descriptors that it gets under the same numbers
  int standard_error = -1;
  bool own_output = true;  ///< whether it has this process's standard output, or its standard error
};

/// Leads a process group of its own, which is killed with it, and dies with the thread that started
/// it.
class RankProcess {
 public:
  /// Returns once the program runs. Throws Error when it cannot.
  explicit RankProcess(const RankStart& start);
  ~RankProcess();
  RankProcess(RankProcess&& from) noexcept;
  RankProcess& operator=(RankProcess&&) = delete;

  pid_t pid() const { return pid_; }
  bool alive() const { return alive_; }
  void send(int signal) const;
  void send_to_group(int signal) const;
  /// How it ended, once; what it left behind in its group is gone then. Does not wait.
  std::optional<RankEnd> reap();

 private:
  pid_t pid_ = -1;
  bool alive_ = false;
};

/// 'R' running, 'S' asleep, 'T' stopped, ...: the kernel's letter; 0 for no such process.
char process_state(pid_t pid);

}  // namespace accel
