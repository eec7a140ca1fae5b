#include "kernels/cuda_norm.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <map>
#include <string>

#include "kernels/cpu_operators.h"
#include "kernels/cuda_library.h"

namespace accel {
namespace {

using torch::jit::Stack;

/// By operator name: the kernels that were registered before.
std::map<std::string, c10::SafeKernelFunction>& kernels_before() {
  static std::map<std::string, c10::SafeKernelFunction> all;
  return all;
}

/// Arguments of a call by their names in the schema.
class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack* stack)
      : schema_(op.schema()), stack_(stack), count_(op.schema().arguments().size()) {}

  c10::IValue& at(const char* name) const {
    const auto index = schema_.argumentIndexWithName(name);
    TORCH_INTERNAL_ASSERT(index.has_value(), name);
    return torch::jit::peek(*stack_, static_cast<size_t>(*index), count_);
  }
  bool has(const char* name) const { return schema_.argumentIndexWithName(name).has_value(); }
  /// Undefined where there is none.
  at::Tensor tensor(const char* name) const {
    if (!has(name) || !at(name).isTensor()) return {};
    return at(name).toTensor();
  }
  void give(const std::vector<at::Tensor>& results) const {
    torch::jit::drop(*stack_, count_);
    for (const at::Tensor& result : results) stack_->emplace_back(result);
  }

 private:
  const c10::FunctionSchema& schema_;
  Stack* stack_;
  size_t count_;
};

bool fits(const at::Tensor& other, const at::Tensor& x, int64_t width) {
  return !other.defined() || (other.device() == x.device() && other.is_contiguous() &&
                              other.scalar_type() == x.scalar_type() && other.numel() == width);
}

/// The input, its normalized size, and the shape of one number per row.
struct NormInput {
  at::Tensor x, weight, bias;
  int64_t width = 1;
  std::vector<int64_t> stats;

  explicit NormInput(const Call& call)
      : x(call.tensor("input")), weight(call.tensor("weight")), bias(call.tensor("bias")) {
    const auto dims = static_cast<int64_t>(call.at("normalized_shape").toIntVector().size());
    for (int64_t i = 0; i < x.dim(); ++i) {
      const bool is_row = i < x.dim() - dims;
      if (!is_row) width *= x.size(i);
      stats.push_back(is_row ? x.size(i) : 1);
    }
  }

  bool is_supported() const {
    return cuda_kernels(x.device()) && is_for_cuda_kernels(x) && x.numel() > 0 &&
           fits(weight, x, width) && fits(bias, x, width);
  }

  CudaNorm arguments(bool is_rms) const {
    CudaNorm in = {};
    in.type = in.y_type = cuda_type(x);
    in.is_rms = is_rms;
    in.rows = x.numel() / width;
    in.width = width;
    in.x = x.const_data_ptr();
    if (weight.defined()) in.weight = weight.const_data_ptr();
    if (bias.defined()) in.bias = bias.const_data_ptr();
    return in;
  }
};

/// False: nothing was done.
bool forward(const Call& call, bool is_rms) {
  if (call.at("eps").isNone()) return false;  // RMSNorm's default depends on the type
  const NormInput input(call);
  if (!input.is_supported()) return false;
  const at::Tensor y = at::empty_like(input.x);
  const at::TensorOptions wide = input.x.options().dtype(at::kFloat);
  const at::Tensor rstd = at::empty(input.stats, wide);
  const at::Tensor mean = is_rms ? at::Tensor() : at::empty(input.stats, wide);
  CudaNorm in = input.arguments(is_rms);
  in.eps = static_cast<float>(call.at("eps").toDouble());
  in.y = y.mutable_data_ptr();
  in.rstd = rstd.mutable_data_ptr<float>();
  if (!is_rms) in.mean = mean.mutable_data_ptr<float>();
  run_cuda_kernel(input.x.device(), cuda_kernels(input.x.device())->norm, in);
  call.give(is_rms ? std::vector{y, rstd} : std::vector{y, mean, rstd});
  return true;
}

/// A new tensor where `like` is defined and its gradient is wanted.
at::Tensor gradient_of(const at::Tensor& like, bool is_wanted) {
  return like.defined() && is_wanted ? at::empty_like(like) : at::Tensor();
}

bool backward(const Call& call, bool is_rms) {
  const NormInput input(call);
  const at::Tensor dy = call.tensor("grad_out"), rstd = call.tensor("rstd");
  const at::Tensor mean = call.tensor("mean");
  if (!input.is_supported() || dy.scalar_type() != input.x.scalar_type()) return false;
  if (rstd.scalar_type() != at::kFloat || !rstd.is_contiguous()) return false;
  if (!is_rms && (mean.scalar_type() != at::kFloat || !mean.is_contiguous())) return false;
  const auto mask = call.at("output_mask").toBoolList();
  const at::Tensor slopes = dy.contiguous(), dx = at::empty_like(input.x);
  const at::Tensor weight_grad = gradient_of(input.weight, mask[1]);
  const at::Tensor bias_grad = is_rms ? at::Tensor() : gradient_of(input.bias, mask[2]);
  CudaNorm in = input.arguments(is_rms);
  in.dy = slopes.const_data_ptr();
  in.dx = dx.mutable_data_ptr();
  in.rstd = rstd.mutable_data_ptr<float>();
  if (!is_rms) in.mean = mean.mutable_data_ptr<float>();
  if (weight_grad.defined()) in.weight_grad = weight_grad.mutable_data_ptr();
  if (bias_grad.defined()) in.bias_grad = bias_grad.mutable_data_ptr();
  const CudaTable* table = cuda_kernels(input.x.device());
  const at::Tensor workspace =
      at::empty({table->norm_workspace(&in)}, input.x.options().dtype(at::kFloat));
  if (workspace.numel() > 0) in.workspace = workspace.mutable_data_ptr<float>();
  run_cuda_kernel(input.x.device(), table->norm_backward, in);
  call.give(is_rms ? std::vector{dx, weight_grad} : std::vector{dx, weight_grad, bias_grad});
  return true;
}

template <bool kIsBackward, bool kIsRms>
void norm_operator(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const Call call(op, stack);
  if (kIsBackward ? backward(call, kIsRms) : forward(call, kIsRms)) return;
  kernels_before().at(op.operator_name().name).callBoxed(op, keys, stack);
}

}  // namespace

void register_cuda_norms(c10::DeviceType type) {
  const c10::DispatchKey key = at::TensorOptions(c10::Device(type)).computeDispatchKey();
  register_overrides(key, [&](torch::Library& aten) {
    const auto put = [&](const char* name, torch::CppFunction boxed) {
      const std::string full = std::string("aten::").append(name);
      const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(full.c_str(), "");
      kernels_before().emplace(full, op.getComputedKernelForDispatchKey(key));
      aten.impl(name, std::move(boxed));
    };
    using torch::CppFunction;
    put("native_layer_norm", CppFunction::makeFromBoxedFunction<&norm_operator<false, false>>());
    put("native_layer_norm_backward",
        CppFunction::makeFromBoxedFunction<&norm_operator<true, false>>());
    put("_fused_rms_norm", CppFunction::makeFromBoxedFunction<&norm_operator<false, true>>());
    put("_fused_rms_norm_backward",
        CppFunction::makeFromBoxedFunction<&norm_operator<true, true>>());
  });
}

}  // namespace accel
