// A libaccel_cuda.so of another version, or on a machine without a driver.
#include "kernels/cuda/table.h"

namespace {

const char* no_problem(int32_t /*index*/) {
  return "";
}

const char* no_driver(int32_t /*index*/) {
  return "CUDA driver version is insufficient for CUDA runtime version";
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const accel::CudaTable* accel_cuda_table() {
  static accel::CudaTable table = {};
#ifdef FAULT_version
  table.version = accel::kCudaTableVersion + 1;
  table.problem = no_problem;
  (void)no_driver;
#else
  table.version = accel::kCudaTableVersion;
  table.problem = no_driver;
  (void)no_problem;
#endif
  return &table;
}
