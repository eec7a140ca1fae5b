// Joins independently started processes to a group of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "parallel/c10d_group.h"
#include "parallel/communicator.h"
#include "parallel/rendezvous/launcher_channel.h"
#include "parallel/rendezvous/rank_info.h"

namespace accel {

struct JoinRequest {
  int64_t rank = 0;
  int64_t world = 1;
  std::string address = "127.0.0.1";  ///< of rank 0's store
  int port = 0;
  std::optional<int> listen_fd;  ///< rank 0's listening socket, if already open; owned
  bool external_store = false;   ///< served by another process, such as torchrun
  std::string group;             ///< distinguishes successive groups in one store
  std::string interface;         ///< whose address the other ranks use; empty: the route to rank 0
  std::string machine = {};      ///< equal on ranks of the same machine
  CpuBackend cpu_backend = CpuBackend::kAuto;
  double join_timeout = 120;    ///< seconds for all ranks to join
  double timeout = 600;         ///< of a collective, in seconds
  double device_timeout = 600;  ///< of one that `on_hang` watches; shorter than `timeout`
  std::string recipe;           ///< must be the same on all ranks
  std::string build;            ///< must be the same on all ranks
  bool checked = false;         ///< make_checked()
  /// The place of each rank in the mesh, "pp 1, tp 0", for error messages; may be empty.
  std::vector<std::string> places = {};
  std::function<void(const std::string&)> report_waiting =
      {};                              ///< called with a line every 5 s of waiting
  RankWatch* watch = nullptr;          ///< outlives the group; may be null
  std::function<int64_t()> step = {};  ///< the step in progress, for error messages; may be null
  BackendMaker device_backend = {};    ///< for tensors on devices; null: CPU only
  WorkCopy device_work = {};           ///< see GroupOptions
  /// Gets the error of a collective that does not complete on a device within `device_timeout`, in
  /// another thread than join()'s caller, which may wait for the device forever: it should end the
  /// process. Null: such collectives are not watched.
  std::function<void(const Error&)> on_hang = {};
  /// See GroupOptions.
  std::function<std::string(const GroupShape&)> axes = {};
};

/// The request of a rank that accel-run's launcher (`channel`), torchrun, mpirun or srun has
/// started. Without a launcher or torchrun, which serve the store, rank 0 listens at the main
/// address. Throws Error.
JoinRequest join_request(const RankInfo& rank, const std::optional<LauncherChannel>& channel,
                         const EnvironmentLookup& lookup);

/// Joins the other ranks; returns when all have joined with the same run. Throws Error: kTimeout
/// with the missing ranks, kRecipe when ranks differ in number of ranks, recipe or build, or two
/// processes have the same rank. Rank 0's machine is awaited for `join_timeout`.
std::unique_ptr<Communicator> join(const JoinRequest& request);

}  // namespace accel
