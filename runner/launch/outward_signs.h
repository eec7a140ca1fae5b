// Signs of a run for its scheduler: a termination message, a readiness file, a job comment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace accel {

/// In a pod of Kubernetes: writes the error as the container's termination message, at most 4096
/// bytes, if the file of the message exists. ACCEL_RUN_TERMINATION_LOG: its path, where the pod's
/// terminationMessagePath is not the default. A later message replaces an earlier one.
void write_termination_message(std::string_view error);

/// The file ACCEL_RUN_READY_FILE, for a readiness probe: exists while all ranks of this machine
/// train.
class ReadyFile {
 public:
  ReadyFile();
  ~ReadyFile() { set(false); }
  ReadyFile(const ReadyFile&) = delete;
  ReadyFile& operator=(const ReadyFile&) = delete;

  /// Cheap when nothing changes. A failure causes one warning.
  void set(bool ready);

 private:
  std::string path_;  ///< empty: not asked for
  bool exists_ = false;
};

/// The comment of the Slurm job, "accel-run: step 371", which squeue shows with --format=%k. Asked
/// for by ACCEL_RUN_SLURM_COMMENT; needs SLURM_JOB_ID and scontrol. Never waits for it but in the
/// destructor.
class SlurmComment {
 public:
  SlurmComment();

  /// At most twice a minute.
  void update(int64_t step, int64_t now_ms);

 private:
  std::string job_;  ///< empty: not asked for
  int64_t next_ms_ = 0, last_step_ = -1;
  std::jthread thread_;
};

}  // namespace accel
