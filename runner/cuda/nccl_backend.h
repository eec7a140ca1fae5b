// The one symbol of libaccel_cuda.so, which is built where CUDA's headers are.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace accel {

struct NcclRequest {
  int rank = 0;
  int world = 1;
  int device = 0;                     ///< of this machine
  std::chrono::milliseconds timeout;  ///< a collective waits so long before NCCL ends the process
};

constexpr auto kNcclSymbol = "accel_nccl_backend";
/// Puts the backend into `out`. Throws what c10d throws.
using NcclFunction = void (*)(const c10::intrusive_ptr<c10d::Store>& store,
                              const NcclRequest& request, c10::intrusive_ptr<c10d::Backend>& out);

}  // namespace accel
