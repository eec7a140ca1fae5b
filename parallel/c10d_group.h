// Communicator over c10d, PyTorch's collectives: one backend for CPU tensors, another on devices.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/failure/collective_log.h"
#include "parallel/shared_memory/cpu_backend.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace accel {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

struct GroupOptions;
class HangWatch;
class LostRanks;

/// Makes the backend of a device, by rendezvous in the store.
using BackendMaker = std::function<BackendPtr(const StorePtr&, const GroupOptions&)>;

/// A copy of a device's work that completes with it and holds no tensors, whose memory would else
/// be in use until the watch sees the end.
using WorkCopy = std::function<WorkPtr(const WorkPtr&)>;

struct GroupOptions {
  int64_t rank = 0;
  int64_t world = 1;
  int64_t global_rank = 0;  ///< in the group of all ranks, for error messages
  double timeout = 600;     ///< of a collective, in seconds
  RankWatch* watch = nullptr;
  std::string host;  ///< this machine's address for the other ranks
  /// Equal on ranks that run on the same machine.
  std::string machine = {};
  CpuBackend cpu_backend = CpuBackend::kAuto;
  BackendMaker device_backend = {};   ///< for tensors on devices; null: CPU only
  std::vector<int64_t> members = {};  ///< global ranks of the group; empty: all of `world`
  std::shared_ptr<const LostRanks> lost_ranks = {};  ///< for error messages; may be null
  std::function<int64_t()> step = {};  ///< the step in progress, for error messages; may be null
  std::string name = "world";          ///< differs between the groups of a rank
  std::shared_ptr<HangWatch> hang_watch = {};  ///< of `device_backend`; null: none
  WorkCopy device_work = {};                   ///< for the watch; null: the work itself
  /// The name of a group's axes in the mesh, for error messages; may be null.
  std::function<std::string(const GroupShape&)> axes = {};
};

/// The first line of c10d's error message, without the source location before it. Of an error of
/// NCCL its name and last error: "ncclSystemError: Connect to 10.0.0.2<5000> failed".
std::string c10d_message(const std::string& text);
/// The hint for an error of a backend: NCCL's own log for those of NCCL.
std::string c10d_hint(const std::string& text);

/// Throws the error of a rank that cannot reach the others.
[[noreturn]] void throw_unconnected(const GroupOptions& options, const std::string& why);

/// Connects the ranks by Gloo after a rendezvous in the store, and verifies that each connection
/// leads to a rank of the group; repeats it up to twice when any rank fails. Throws Error.
BackendPtr make_gloo_backend(const StorePtr& store, const GroupOptions& options);

struct SharedMemoryAttempt {
  BackendPtr backend;        ///< null on all ranks unless all could map each other's memory
  std::string problem = {};  ///< of one rank; empty when the ranks are on several machines
};

/// Connects the ranks by memory that they share, after a rendezvous in the store. Throws what the
/// store throws.
///
/// A rank copies its tensor to memory of its own when a collective starts, unless the tensor lies
/// in shared_zeros(), and reads those of the others when it waits for the result; no collective has
/// a thread. Sums have the bits of Gloo's. Collectives throw LostPeer when a rank has ended or
/// left.
SharedMemoryAttempt make_shared_memory_backend(const StorePtr& store, const GroupOptions& options);

/// Connects the ranks by rendezvous in the store: `cpu_backend` for CPU tensors, `device_backend`
/// for others. Throws Error.
std::unique_ptr<Communicator> make_c10d_group(const StorePtr& store, const GroupOptions& options);

/// Verifies before each collective that all ranks call the same one, with an additional small
/// collective. Ranks that differ in operation, purpose, type or shape all throw Error (kRank) with
/// every rank's call; without the check they would hang or mix up data.
std::unique_ptr<Communicator> make_checked(std::unique_ptr<Communicator> group);

}  // namespace accel
