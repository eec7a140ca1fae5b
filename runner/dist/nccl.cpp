#include "runner/dist/nccl.h"

#include <dlfcn.h>

#include <exception>
#include <string>

#include "core/error.h"
#include "runner/cuda/nccl_backend.h"

namespace accel {
namespace {

constexpr auto kLibrary = "libaccel_cuda.so";

NcclFunction load_nccl() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library ? dlsym(library, kNcclSymbol) : nullptr;
  if (symbol) return reinterpret_cast<NcclFunction>(symbol);
  throw Error(ExitCode::kRank, "several GPUs cannot be used together: " + std::string(dlerror()),
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
      const std::string text = error.what();
      throw Error(ExitCode::kRank,
                  "rank " + std::to_string(options.rank) + " cannot connect GPU " +
                      std::to_string(index) + " to the others: " + text.substr(0, text.find('\n')),
                  "NCCL_DEBUG=INFO in the environment makes NCCL say more");
    }
  };
}

}  // namespace accel
