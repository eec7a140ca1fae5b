// Autocast of the device, with CUDA's lists of operators.
#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace at::autocast {
namespace {

#define OF_HOST_DEVICE(...) KERNEL(c10::DeviceType::HPU, __VA_ARGS__)
#define LOWER_PRECISION_FP(...) OF_HOST_DEVICE(__VA_ARGS__, lower_precision_fp)
#define FP32(...) OF_HOST_DEVICE(__VA_ARGS__, fp32)
#define FP32_SET_OPT_DTYPE(...) OF_HOST_DEVICE(__VA_ARGS__, fp32_set_opt_dtype)
#define PROMOTE(...) OF_HOST_DEVICE(__VA_ARGS__, promote)

// The operators of the lists, and no others.
TORCH_LIBRARY_IMPL(aten, AutocastHPU, m) {
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION_FP)
  AT_FORALL_FP32(FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FP32_SET_OPT_DTYPE)
  AT_FORALL_PROMOTE(PROMOTE)
}

}  // namespace
}  // namespace at::autocast
