#include "parallel/nccl.h"

#include <cmath>
#include <cstdlib>
#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "core/base/error.h"
#include "core/base/shared_library.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr auto kLibrary = "libaccel_nccl.so";

constexpr auto kNcclLater = std::chrono::seconds(60);
constexpr auto kHeartbeatVariable = "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC";

template <class Function>
Function load_nccl(const char* symbol) {
  SharedLibrary library(kLibrary);
  Function function = nullptr;
  if (library.find(symbol, function)) return function;
  throw Error(ExitCode::kRank, text("NCCL is unavailable: {}", library.error()),
              "build accel-run on a machine with the CUDA toolkit and NCCL's header");
}

}  // namespace

std::chrono::seconds nccl_timeout(double timeout) {
  return std::chrono::seconds(std::llround(std::ceil(timeout))) + kNcclLater;
}

BackendMaker nccl_backend(int index) {
  return [index](const StorePtr& store, const GroupOptions& options) {
    const auto make = load_nccl<NcclFunction>(kNcclSymbol);
    const std::chrono::seconds timeout = nccl_timeout(options.timeout);
    // By default c10d aborts a process whose queries of the device are blocked for eight minutes.
    setenv(kHeartbeatVariable, std::to_string((timeout + kNcclLater).count()).c_str(), 0);
    const NcclRequest request{.rank = static_cast<int>(options.rank),
                              .world = static_cast<int>(options.world),
                              .device = index,
                              .timeout = timeout};
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

WorkCopy nccl_work_copy() {
  return [copy = NcclWorkFunction(nullptr)](const WorkPtr& work) mutable {
    if (!copy) copy = load_nccl<NcclWorkFunction>(kNcclWorkSymbol);
    WorkPtr out;
    copy(work, out);
    return out;
  };
}

}  // namespace accel
