// Channel from accel-run's launcher to a rank: inherited descriptors and a token.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "core/base/environment.h"
#include "core/base/owned_fd.h"

namespace accel {

constexpr auto kBoardVariable = "ACCEL_RUN_BOARD_FD";
constexpr auto kStoreVariable = "ACCEL_RUN_STORE_FD";
constexpr auto kLifelineVariable = "ACCEL_RUN_LIFELINE_FD";
constexpr auto kGenerationVariable = "ACCEL_RUN_GENERATION";
constexpr auto kTokenVariable = "ACCEL_RUN_TOKEN";
/// A secret that all machines of a job share, set by the user or by `accel-run submit`.
constexpr auto kJobTokenVariable = "ACCEL_RUN_JOB_TOKEN";

struct LauncherChannel {
  std::optional<int> store_fd;     ///< rank 0 on one machine: a listening socket at the main port
  std::optional<int> lifeline_fd;  ///< a pipe: end of file when the launcher ends
  int64_t generation = 0;          ///< restarts of the ranks so far
  std::string token;               ///< 32 random letters, the same for all ranks of this machine
};

/// None when accel-run's launcher did not start this process. Throws Error (exit code 2) for
/// invalid values. The descriptors stay open over exec until the caller changes that.
std::optional<LauncherChannel> find_launcher_channel(const EnvironmentLookup& lookup);

/// Ends this process and its process group by SIGKILL when the launcher ends. Complements
/// PR_SET_PDEATHSIG, which the kernel clears when a program changes its user or capabilities.
class OrphanGuard {
 public:
  /// Takes ownership of a lifeline; -1: no effect.
  explicit OrphanGuard(int lifeline_fd);
  ~OrphanGuard();
  OrphanGuard(const OrphanGuard&) = delete;
  OrphanGuard& operator=(const OrphanGuard&) = delete;

 private:
  OwnedFd lifeline_, wake_;
  std::jthread thread_;
};

}  // namespace accel
