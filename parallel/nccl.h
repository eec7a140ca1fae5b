// The NCCL backend, in a library that only processes with GPUs load: libaccel_nccl.so.
#pragma once

#include <chrono>

#include "parallel/c10d_group.h"

namespace accel {

/// Maker of the NCCL backend for CUDA device `index`. It throws Error (kRank) when libaccel_nccl.so
/// is missing or NCCL fails.
BackendMaker nccl_backend(int index);

struct NcclRequest {
  int rank = 0;
  int world = 1;
  int device = 0;                     ///< of this machine
  std::chrono::milliseconds timeout;  ///< of a collective, after which NCCL ends the process
};

/// The symbol of libaccel_nccl.so: stores the backend in `out`. Throws c10d's exceptions.
constexpr auto kNcclSymbol = "accel_nccl_backend";
using NcclFunction = void (*)(const StorePtr& store, const NcclRequest& request, BackendPtr& out);

}  // namespace accel
