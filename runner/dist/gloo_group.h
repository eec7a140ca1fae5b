// A group of ranks over Gloo, PyTorch's collectives on the CPU.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>

#include "runner/dist/communicator.h"
#include "runner/dist/rank_watch.h"

namespace c10d {
class Store;
}

namespace accel {

struct GlooOptions {
  int64_t rank = 0;
  int64_t world = 1;
  std::string host;      ///< this machine's address, as the other ranks reach it
  double timeout = 600;  ///< seconds a collective waits
  RankWatch* watch = nullptr;
};

/// Connects to all other ranks, which meet in `store`. Throws Error.
std::unique_ptr<Communicator> make_gloo_group(const c10::intrusive_ptr<c10d::Store>& store,
                                              const GlooOptions& options);

}  // namespace accel
