// The NCCL backend, in a library that only processes with GPUs load: libaccel_nccl.so.
#pragma once

#include <chrono>

#include "parallel/c10d_group.h"

namespace accel {

/// Maker of the NCCL backend for CUDA device `index`. It throws Error (kRank) when libaccel_nccl.so
/// is missing or NCCL fails.
BackendMaker nccl_backend(int index);

/// c10d's timeout of a collective, after which it aborts the process: later than
/// `accelerator.timeout`, in seconds, so that the rank first reports the collective itself.
std::chrono::seconds nccl_timeout(double timeout);

/// Copies works of the NCCL backend. The function throws Error (kRank) as nccl_backend()'s does.
WorkCopy nccl_work_copy();

struct NcclRequest {
  int rank = 0;
  int world = 1;
  int device = 0;                     ///< of this machine
  std::chrono::milliseconds timeout;  ///< of a collective, after which c10d ends the process
};

/// The symbol of libaccel_nccl.so: stores the backend in `out`. Throws c10d's exceptions.
constexpr auto kNcclSymbol = "accel_nccl_backend";
using NcclFunction = void (*)(const StorePtr& store, const NcclRequest& request, BackendPtr& out);
/// Another one: stores a copy of a work without its tensors in `out`.
constexpr auto kNcclWorkSymbol = "accel_nccl_work_copy";
using NcclWorkFunction = void (*)(const WorkPtr& work, WorkPtr& out);

}  // namespace accel
