// A group of ranks over c10d, PyTorch's collectives: Gloo on the CPU, another backend on devices.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <memory>
#include <string>

#include "runner/dist/communicator.h"
#include "runner/dist/rank_watch.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace accel {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

struct GroupOptions {
  int64_t rank = 0;
  int64_t world = 1;
  double timeout = 600;  ///< seconds a collective waits
  RankWatch* watch = nullptr;
};

/// Connects this rank to the others by way of a device's own network; they meet in the store.
using BackendMaker = std::function<BackendPtr(const StorePtr&, const GroupOptions&)>;

/// Gloo's; `host` is this machine's address, as the other ranks reach it. Throws Error.
BackendPtr make_gloo_backend(const StorePtr& store, const GroupOptions& options,
                             const std::string& host);

/// Tensors on the CPU travel over `host`, all others over `device`, which may be null.
std::unique_ptr<Communicator> make_c10d_group(const GroupOptions& options, BackendPtr host,
                                              BackendPtr device);

}  // namespace accel
