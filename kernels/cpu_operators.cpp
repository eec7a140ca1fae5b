#include "kernels/cpu_operators.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_cpu_dispatch.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_cpu_dispatch.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/convolution_backward_native.h>
#include <ATen/ops/convolution_native.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <map>
#include <string>

#include "kernels/attention.h"
#include "kernels/convolution.h"
#include "kernels/kernels.h"
#include "kernels/widening.h"

namespace accel {
namespace {

using at::IntArrayRef;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

bool is_fused() {
  return kernels() == Kernels::kFused;
}

/// Whether `value` is no tensor, or one of `type`.
template <typename Value>
bool fits(const Value& value, at::ScalarType type) {
  if constexpr (std::is_same_v<Value, Tensor>) return value.scalar_type() == type;
  if constexpr (std::is_same_v<Value, OptionalTensor>) {
    return !value || !value->defined() || value->scalar_type() == type;
  }
  return true;
}

// ATen's lists of arguments are long: the last ones are taken as they come.

template <auto kOperator, typename... In>
auto widened(const Tensor& first, In... in) {
  const auto type = first.scalar_type();
  const bool is_widened = widens(type) && is_fused() && (fits(in, type) && ...);
  return is_widened ? computed_wide<kOperator>(first, in...) : kOperator(first, in...);
}

constexpr auto kAttention = &at::cpu::_scaled_dot_product_flash_attention_for_cpu;
constexpr auto kAttentionBackward = &at::cpu::_scaled_dot_product_flash_attention_for_cpu_backward;

/// `in` has what AttentionCall has besides queries, in its order.
template <typename... In>
std::tuple<Tensor, Tensor> own_attention(const Tensor& query, In... in) {
  const AttentionCall call = {query, in...};
  return is_fused() && attends(call) ? attend(call) : kAttention(query, in...);
}

/// The second result, of each row the log of a sum, is in float32 for all types.
template <typename... In>
std::tuple<Tensor, Tensor> attention(const Tensor& query, In... in) {
  const auto type = query.scalar_type();
  if (!widens(type) || !is_fused() || !(fits(in, type) && ...)) {
    return own_attention(query, in...);
  }
  auto [out, sums] = own_attention(wide(query), wide(in)...);
  return {narrow(out, type), sums};
}

/// `in` has what attention() was given and gave.
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
  if (!widens_attention_gradients(type) || !is_fused()) return own_attention_backward(dout, in...);
  return narrow(own_attention_backward(wide(dout), wide(in)...), type);
}

/// `rest`: what ConvolutionCall has, in its order.
template <typename... Rest>
Tensor convolution(const Tensor& x, const Tensor& weight, const OptionalTensor& bias,
                   Rest... rest) {
  if (is_fused() && convolves_by_products(x, weight, {rest...})) {
    return convolve_by_products(x, weight, bias, {rest...});
  }
  return at::native::convolution(x, weight, bias, rest...);
}

/// In 16 bits oneDNN takes four times as long for gradients of windows that lie in one channel.
bool is_faster_wide(const Tensor& x, const Tensor& weight) {
  return has_16_bits(x.scalar_type()) && x.dim() == 4 && x.size(1) == 1 && weight.size(1) == 1;
}

template <typename... Rest>
ConvolutionGradients convolution_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                          at::OptionalIntArrayRef bias, Rest... rest) {
  if (is_fused() && convolves_by_products(x, weight, {rest...})) {
    return convolve_by_products_backward(dy, x, weight, {rest...});
  }
  if (is_fused() && is_faster_wide(x, weight) && fits(dy, x.scalar_type())) {
    return computed_wide<&at::native::convolution_backward>(dy, x, weight, bias, rest...);
  }
  return at::native::convolution_backward(dy, x, weight, bias, rest...);
}

constexpr auto kConvolution =
    &convolution<IntArrayRef, IntArrayRef, IntArrayRef, bool, IntArrayRef, int64_t>;
constexpr auto kConvolutionBackward =
    &convolution_backward<IntArrayRef, IntArrayRef, IntArrayRef, bool, IntArrayRef, int64_t,
                          std::array<bool, 3>>;

/// Those that compute 16-bit types in float32, and whether a type is one of these, by name.
std::map<std::string, bool (*)(at::ScalarType)>& wide_operators() {
  static std::map<std::string, bool (*)(at::ScalarType)> operators;
  return operators;
}

/// Each with the types that it computes in float32.
void stand_in(torch::Library& aten) {
  using T = const Tensor&;
  using M = const OptionalTensor&;
  using S = const at::Scalar&;
  using I = IntArrayRef;
  using Scale = std::optional<double>;
  const auto put = [&](const char* name, auto* kernel, auto widens_type) {
    aten.impl(name, kernel);
    wide_operators()[std::string("aten::").append(name)] = widens_type;
  };
  put("mm", &widened<&at::cpu::mm, T>, &widens);
  put("bmm", &widened<&at::cpu::bmm, T>, &widens);
  put("addmm", &widened<&at::cpu::addmm, T, T, S, S>, &widens);
  put("baddbmm", &widened<&at::cpu::baddbmm, T, T, S, S>, &widens);
  put("_scaled_dot_product_flash_attention_for_cpu", &attention<T, T, double, bool, M, Scale>,
      &widens);
  put("_scaled_dot_product_flash_attention_for_cpu_backward",
      &attention_backward<T, T, T, T, T, double, bool, M, Scale>, &widens_attention_gradients);
  put("convolution", &widened<kConvolution, T, M, I, I, I, bool, I, int64_t>, &widens);
  put("convolution_backward",
      &widened<kConvolutionBackward, T, T, at::OptionalIntArrayRef, I, I, I, bool, I, int64_t,
               std::array<bool, 3>>,
      &widens);
}

/// PyTorch warns of a kernel that takes another's place.
class Silence final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

}  // namespace

torch::Library& put_before_aten(void (*stand_in)(torch::Library& aten)) {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  auto* aten =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  stand_in(*aten);
  return *aten;
}

void stand_in_for_aten() {
  static const torch::Library& for_good = put_before_aten(&stand_in);
  (void)for_good;
}

bool is_computed_wide(const std::string& name, at::ScalarType type) {
  const auto found = wide_operators().find(name);
  return found != wide_operators().end() && found->second(type);
}

}  // namespace accel
