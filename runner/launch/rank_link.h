// What accel-run's launcher hands to a rank beside its place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "runner/launch/owned_fd.h"
#include "runner/launch/rank_place.h"

namespace accel {

constexpr auto kBoardVariable = "ACCEL_RUN_BOARD_FD";
constexpr auto kStoreVariable = "ACCEL_RUN_STORE_FD";
constexpr auto kLifelineVariable = "ACCEL_RUN_LIFELINE_FD";
constexpr auto kGenerationVariable = "ACCEL_RUN_GENERATION";
constexpr auto kTokenVariable = "ACCEL_RUN_TOKEN";

struct RankLink {
  std::optional<int> store_fd;  ///< rank 0 of one launcher: a socket that listens at the main port
  std::optional<int> lifeline_fd;  ///< a pipe: its end of file says that the launcher is gone
  int64_t generation = 0;          ///< how often the ranks were started anew
  std::string token;               ///< 32 random letters, the same for all ranks of this machine
};

/// None when accel-run's launcher did not start this process. Throws Error (exit code 2) for values
/// that it does not set. The descriptors stay open over exec until the caller changes that.
std::optional<RankLink> find_link(const EnvironmentLookup& lookup);

/// Ends this process and its process group by SIGKILL once the launcher is gone: a second way
/// beside the kernel's, which ends with a program that changes its user or its capabilities.
class OrphanGuard {
 public:
  /// Takes over a lifeline; of -1 it does nothing.
  explicit OrphanGuard(int lifeline_fd);
  ~OrphanGuard();
  OrphanGuard(const OrphanGuard&) = delete;
  OrphanGuard& operator=(const OrphanGuard&) = delete;

 private:
  OwnedFd lifeline_, wake_;
  std::jthread thread_;
};

}  // namespace accel
