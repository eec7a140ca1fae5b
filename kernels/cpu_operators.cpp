#include "kernels/cpu_operators.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_cpu_dispatch.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_cpu_dispatch.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/convolution_backward_native.h>
#include <ATen/ops/convolution_native.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sqrt.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <map>
#include <string>

#include "core/base/cpu_target.h"
#include "kernels/attention.h"
#include "kernels/convolution.h"
#include "kernels/cpu/upcast.h"
#include "kernels/few_rows.h"
#include "kernels/memory/gradient_memory.h"
#include "kernels/narrow_product.h"

namespace accel {
namespace {

using at::IntArrayRef;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

bool is_fused() {
  return kernels() == Kernels::kFused;
}

/// Whether `value` is not a tensor, or a tensor of `type`.
template <typename Value>
bool fits(const Value& value, at::ScalarType type) {
  if constexpr (std::is_same_v<Value, Tensor>) return value.scalar_type() == type;
  if constexpr (std::is_same_v<Value, OptionalTensor>) {
    return !value || !value->defined() || value->scalar_type() == type;
  }
  return true;
}

// ATen's argument lists are long: the last arguments are forwarded as a pack.

template <auto kOperator, typename... In>
auto widened(const Tensor& first, In... in) {
  const auto type = first.scalar_type();
  const bool is_upcast = upcasts(type) && is_fused() && (fits(in, type) && ...);
  return is_upcast ? compute_in_fp32<kOperator>(first, in...) : kOperator(first, in...);
}

/// Most rows in float32 that are faster than MKL's products: with AVX2, of which MKL computes one
/// row in one thread, GPT-2 generates 1.3 times as fast on Zen 3 with 4 rows, equally fast with 8.
int64_t most_float_rows() {
  switch (cpu_target()) {
    case CpuTarget::kAvx512:
      return kFewRows;
    case CpuTarget::kAvx2:
      return 4;
    default:
      return 0;
  }
}

/// Whether a * b is a product of few rows with a transposed weight: in float32, or in bfloat16,
/// which ATen converts to float32 as a whole or reorders.
bool takes_few_rows(const Tensor& a, const Tensor& b) {
  const auto type = a.scalar_type();
  const bool is_taken =
      type == at::kFloat
          ? a.size(0) <= most_float_rows()
          : type == at::kBFloat16 && (upcasts(type) || cpu_target() == CpuTarget::kAvx512);
  return is_taken && has_few_rows(a) && b.scalar_type() == type && b.is_cpu() && b.stride(0) == 1 &&
         b.stride(1) == b.size(0);
}

Tensor product(const Tensor& a, const Tensor& b) {
  if (!is_fused()) return at::cpu::mm(a, b);
  if (is_narrow_product(a, b)) return narrow_product(a, b, {});
  Tensor gradient = gradient_memory_of_product(a, b);
  return gradient.defined() ? at::cpu::mm_out(gradient, a, b) : at::cpu::mm(a, b);
}

bool is_sum_of(const Tensor& bias, const Tensor& a, const at::Scalar& beta,
               const at::Scalar& alpha) {
  return beta.equal(1) && alpha.equal(1) && bias.scalar_type() == a.scalar_type();
}

Tensor product_and_bias(const Tensor& bias, const Tensor& a, const Tensor& b,
                        const at::Scalar& beta, const at::Scalar& alpha) {
  const bool has_bias =
      bias.is_cpu() && bias.dim() == 1 && bias.size(0) == b.size(1) && bias.is_contiguous();
  if (is_fused() && has_bias && is_sum_of(bias, a, beta, alpha) && is_narrow_product(a, b)) {
    return narrow_product(a, b, bias);
  }
  return at::cpu::addmm(bias, a, b, beta, alpha);
}

Tensor mm(const Tensor& a, const Tensor& b) {
  if (!takes_few_rows(a, b)) return widened<&product>(a, b);
  return downcast(few_rows_product(a, stored_weight(b.t())), a.scalar_type());
}

Tensor addmm(const Tensor& bias, const Tensor& a, const Tensor& b, const at::Scalar& beta,
             const at::Scalar& alpha) {
  if (!is_sum_of(bias, a, beta, alpha) || !takes_few_rows(a, b)) {
    return widened<&product_and_bias, const Tensor&, const Tensor&, const at::Scalar&,
                   const at::Scalar&>(bias, a, b, beta, alpha);
  }
  return downcast(few_rows_product(a, stored_weight(b.t())).add_(bias), a.scalar_type());
}

constexpr auto kAttention = &at::cpu::_scaled_dot_product_flash_attention_for_cpu;
constexpr auto kAttentionBackward = &at::cpu::_scaled_dot_product_flash_attention_for_cpu_backward;

/// `in`: the fields of AttentionCall after the query, in order.
template <typename... In>
std::tuple<Tensor, Tensor> own_attention(const Tensor& query, In... in) {
  const AttentionCall call = {query, in...};
  return is_fused() && attends(call) ? attend(call) : kAttention(query, in...);
}

/// The log-sum-exp result is float32 for all types.
template <typename... In>
std::tuple<Tensor, Tensor> attention(const Tensor& query, In... in) {
  const auto type = query.scalar_type();
  if (!upcasts(type) || !is_fused() || !(fits(in, type) && ...)) {
    return own_attention(query, in...);
  }
  auto [out, sums] = own_attention(upcast(query), upcast(in)...);
  return {downcast(out, type), sums};
}

/// `in`: arguments and results of attention().
template <typename... In>
AttentionGradients own_attention_backward(const Tensor& dout, In... in) {
  const auto with = std::tie(in...);
  const AttentionCall call = {std::get<0>(with), std::get<1>(with), std::get<2>(with),
                              std::get<5>(with), std::get<6>(with), std::get<7>(with),
                              std::get<8>(with)};
  const Attended attended = {dout, std::get<3>(with), std::get<4>(with)};
  const bool takes = is_fused() && attends(call, attended);
  return takes ? attend_backward(call, attended) : kAttentionBackward(dout, in...);
}

template <typename... In>
AttentionGradients attention_backward(const Tensor& dout, In... in) {
  const auto type = dout.scalar_type();
  if (!upcasts_attention_gradients(type) || !is_fused()) return own_attention_backward(dout, in...);
  return downcast(own_attention_backward(upcast(dout), upcast(in)...), type);
}

/// `rest`: the fields of ConvolutionCall, in order.
template <typename... Rest>
Tensor convolution(const Tensor& x, const Tensor& weight, const OptionalTensor& bias,
                   Rest... rest) {
  if (is_fused() && convolves_by_products(x, weight, {rest...}, ConvolutionPass::kForward)) {
    return convolve_by_products(x, weight, bias, {rest...});
  }
  return at::native::convolution(x, weight, bias, rest...);
}

/// oneDNN's 16-bit gradients of single-channel windows take four times as long.
bool is_faster_wide(const Tensor& x, const Tensor& weight) {
  return has_16_bits(x.scalar_type()) && x.dim() == 4 && x.size(1) == 1 && weight.size(1) == 1;
}

template <typename... Rest>
ConvolutionGradients convolution_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                          at::OptionalIntArrayRef bias, Rest... rest) {
  if (is_fused() && convolves_by_products(x, weight, {rest...}, ConvolutionPass::kBackward)) {
    return convolve_by_products_backward(dy, x, weight, {rest...});
  }
  if (is_fused() && is_faster_wide(x, weight) && fits(dy, x.scalar_type())) {
    return compute_in_fp32<&at::native::convolution_backward>(dy, x, weight, bias, rest...);
  }
  return at::native::convolution_backward(dy, x, weight, bias, rest...);
}

constexpr auto kConvolution =
    &convolution<IntArrayRef, IntArrayRef, IntArrayRef, bool, IntArrayRef, int64_t>;
constexpr auto kConvolutionBackward =
    &convolution_backward<IntArrayRef, IntArrayRef, IntArrayRef, bool, IntArrayRef, int64_t,
                          std::array<bool, 3>>;

/// By operator name: whether it computes a 16-bit type in float32.
std::map<std::string, bool (*)(at::ScalarType)>& wide_operators() {
  static std::map<std::string, bool (*)(at::ScalarType)> operators;
  return operators;
}

/// Registers each operator with the types that it computes in float32.
void stub(torch::Library& aten) {
  using T = const Tensor&;
  using M = const OptionalTensor&;
  using S = const at::Scalar&;
  using I = IntArrayRef;
  using Scale = std::optional<double>;
  const auto put = [&](const char* name, auto* kernel, auto widens_type) {
    aten.impl(name, kernel);
    wide_operators()[std::string("aten::").append(name)] = widens_type;
  };
  put("mm", &mm, &upcasts);
  put("bmm", &widened<&at::cpu::bmm, T>, &upcasts);
  put("addmm", &addmm, &upcasts);
  put("baddbmm", &widened<&at::cpu::baddbmm, T, T, S, S>, &upcasts);
  put("_scaled_dot_product_flash_attention_for_cpu", &attention<T, T, double, bool, M, Scale>,
      &upcasts);
  put("_scaled_dot_product_flash_attention_for_cpu_backward",
      &attention_backward<T, T, T, T, T, double, bool, M, Scale>, &upcasts_attention_gradients);
  put("convolution", &widened<kConvolution, T, M, I, I, I, bool, I, int64_t>, &upcasts);
  put("convolution_backward",
      &widened<kConvolutionBackward, T, T, at::OptionalIntArrayRef, I, I, I, bool, I, int64_t,
               std::array<bool, 3>>,
      &upcasts);
}

/// Suppresses PyTorch's warning about replaced kernels.
class Silence final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

}  // namespace

torch::Library& register_overrides(c10::DispatchKey key,
                                   c10::function_ref<void(torch::Library& aten)> stub) {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  auto* aten = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  stub(*aten);
  return *aten;
}

torch::Library& register_cpu_overrides(void (*stub)(torch::Library& aten)) {
  return register_overrides(c10::DispatchKey::CPU, stub);
}

void use_kernels(Kernels kernels) {
  if (kernels == Kernels::kFused) {
    static const torch::Library& registered = register_cpu_overrides(&stub);
    (void)registered;
  }
  set_kernels_of_process(kernels);
}

void initialize_kernels(Kernels kernels, MklInstructions instructions) {
  use_kernels(kernels);
  set_mkl_instructions(instructions);
  at::sqrt(at::ones({1}, at::kFloat));
}

bool is_computed_wide(const std::string& name, at::ScalarType type) {
  const auto found = wide_operators().find(name);
  return found != wide_operators().end() && found->second(type);
}

}  // namespace accel
