#include "parallel/nccl.h"

#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "core/base/error.h"
#include "core/base/shared_library.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr auto kLibrary = "libaccel_nccl.so";

NcclFunction load_nccl() {
  SharedLibrary library(kLibrary);
  NcclFunction make = nullptr;
  if (library.find(kNcclSymbol, make)) return make;
  throw Error(ExitCode::kRank, text("NCCL is unavailable: {}", library.error()),
              "build accel-run on a machine with the CUDA toolkit and NCCL's header");
}

}  // namespace

BackendMaker nccl_backend(int index) {
  return [index](const StorePtr& store, const GroupOptions& options) {
    const NcclFunction make = load_nccl();
    const NcclRequest request{
        .rank = static_cast<int>(options.rank),
        .world = static_cast<int>(options.world),
        .device = index,
        .timeout = std::chrono::milliseconds(static_cast<int64_t>(options.timeout * 1e3))};
    try {
      BackendPtr backend;
      make(store, request, backend);
      return backend;
    } catch (const std::exception& error) {
      throw Error(ExitCode::kRank,
                  text("rank {} cannot connect GPU {} to the others: {}", options.rank, index,
                       c10d_message(error.what())),
                  "set NCCL_DEBUG=INFO in the environment for details");
    }
  };
}

}  // namespace accel
