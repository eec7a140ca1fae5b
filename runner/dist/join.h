// How processes that were started apart become ranks of one group.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runner/dist/c10d_group.h"
#include "runner/dist/communicator.h"
#include "runner/dist/rank_watch.h"

namespace accel {

struct JoinRequest {
  int64_t rank = 0;
  int64_t world = 1;
  std::string address = "127.0.0.1";  ///< where rank 0's store is
  int port = 0;
  std::optional<int> listen_fd;  ///< rank 0's listening socket, if somebody opened it; taken over
  bool store_is_there = false;   ///< another process, such as torchrun, serves the store
  std::string group;             ///< tells groups apart that meet at one store one after another
  double join_timeout = 120;     ///< seconds until all ranks must have come
  double timeout = 600;          ///< seconds a collective waits for the others
  std::string recipe;            ///< must be the same on all ranks, as must
  std::string build;             ///< this
  bool checked = false;          ///< make_checked()
  std::function<void(const std::string&)> tell = {};  ///< gets a line every 5 s of waiting
  RankWatch* watch = nullptr;                         ///< outlives the group; may be null
  BackendMaker device_backend = {};  ///< for tensors that are not on the CPU; null: there are none
};

/// Meets the other ranks. Returns when all have come and mean the same run. Throws Error with
/// kTimeout, naming the ranks that are missing, or with kRecipe when ranks disagree about the
/// number of ranks, the recipe or the build, or when two claim one rank.
std::unique_ptr<Communicator> join(const JoinRequest& request);

}  // namespace accel
