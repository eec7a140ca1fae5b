#include "kernels/device_graph.h"

#include <string>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/shared_library.h"
#include "core/base/text.h"

namespace accel {

std::unique_ptr<DeviceGraph> make_device_graph(at::Device device) {
  const std::string name = device.is_cuda()
                               ? "libaccel_cuda_graph.so"
                               : environment_variable("ACCEL_HOST_DEVICE").value_or("");
  SharedLibrary library(name);
  DeviceGraphFunction* make = nullptr;
  if (device.is_cpu() || !library.find(kDeviceGraphSymbol, make)) {
    throw Error(ExitCode::kRecipe,
                text("CUDA graphs are unavailable: {}",
                     device.is_cpu() ? "the job computes on the CPU" : library.error()),
                "leave 'accelerator.cuda_graph' out");
  }
  std::unique_ptr<DeviceGraph> graph;
  make(graph);
  return graph;
}

}  // namespace accel
