#include "runner/launch/outward_signs.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/owned_fd.h"
#include "core/base/text.h"
#include "runner/launch/run_program.h"

namespace accel {
namespace {

constexpr size_t kLongestMessage = 4096;  // the kubelet's limit
constexpr int64_t kCommentEveryMs = 30'000;
constexpr int kCommentSeconds = 5;

}  // namespace

void write_termination_message(std::string_view error) {
  const auto given = environment_variable("ACCEL_RUN_TERMINATION_LOG");
  if (!given && !environment_variable("KUBERNETES_SERVICE_HOST")) return;
  const OwnedFd file = open_fd(given.value_or("/dev/termination-log"), O_WRONLY | O_TRUNC);
  if (!file) return;  // such as a read-only root: the log has the error
  const std::string_view text = error.substr(0, kLongestMessage);
  if (::write(file.get(), text.data(), text.size()) < 0) return;
}

ReadyFile::ReadyFile() : path_(environment_variable("ACCEL_RUN_READY_FILE").value_or("")) {
  if (!path_.empty()) ::unlink(path_.c_str());  // of an earlier process
}

void ReadyFile::set(bool ready) {
  if (path_.empty() || ready == exists_) return;
  exists_ = ready;
  if (!ready) {
    ::unlink(path_.c_str());
    return;
  }
  const OwnedFd file = open_fd(path_, O_WRONLY | O_CREAT, 0644);
  if (!file) {
    warn(text("cannot write '{}' of ACCEL_RUN_READY_FILE: {}", std::exchange(path_, ""),
              std::strerror(errno)));
  }
}

SlurmComment::SlurmComment() {
  const auto job = environment_variable("SLURM_JOB_ID");
  if (!job || !environment_variable("ACCEL_RUN_SLURM_COMMENT")) return;
  if (has_program("scontrol")) job_ = *job;
}

void SlurmComment::update(int64_t step, int64_t now_ms) {
  if (job_.empty() || step == last_step_ || now_ms < next_ms_) return;
  next_ms_ = now_ms + kCommentEveryMs;
  last_step_ = step;
  thread_ = std::jthread([job = job_, step] {
    try {
      run_program(
          {"scontrol", "update", "JobId=" + job, "Comment=accel-run: step " + std::to_string(step)},
          kCommentSeconds);
    } catch (const Error&) {
      // The comment is a convenience.
    }
  });
}

}  // namespace accel
