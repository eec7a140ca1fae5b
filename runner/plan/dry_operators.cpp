#include "runner/plan/dry_operators.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/result_type.h>

#include <algorithm>
#include <map>
#include <vector>

#include "runner/plan/dry_convolution.h"
#include "runner/plan/dry_scope.h"
#include "runner/plan/dry_tensor.h"

namespace accel {
namespace {

using Values = c10::ArrayRef<c10::IValue>;
using Outputs = std::vector<at::Tensor>;

std::vector<int64_t> integers(const c10::IValue& value) {
  return value.toDimVector().empty() ? std::vector<int64_t>{} : value.toIntVector();
}

bool wanted(const c10::IValue& mask, size_t index) {
  return mask.toBoolList().get(index);
}

at::Tensor like_if(const c10::IValue& mask, size_t index, const c10::IValue& like) {
  if (!wanted(mask, index) || !like.isTensor() || !like.toTensor().defined()) return {};
  return dry_like(like.toTensor());
}

/// native_layer_norm(input, normalized_shape, weight, bias, eps)
Outputs layer_norm(Values in) {
  const at::Tensor& input = in[0].toTensor();
  std::vector<int64_t> rows = input.sizes().vec();
  const size_t normed = in[1].toDimVector().size();
  for (size_t i = rows.size() - normed; i < rows.size(); ++i) rows[i] = 1;
  return {dry_empty(input.sizes(), input.scalar_type()), dry_empty(rows, at::kFloat),
          dry_empty(rows, at::kFloat)};
}

/// native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, mask)
Outputs layer_norm_backward(Values in) {
  return {like_if(in[7], 0, in[1]), like_if(in[7], 1, in[5]), like_if(in[7], 2, in[6])};
}

/// native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
Outputs batch_norm(Values in) {
  const at::Tensor& input = in[0].toTensor();
  const int64_t kept = in[5].toBool() ? input.size(1) : 0;
  return {dry_like(input), dry_empty({kept}, at::kFloat), dry_empty({kept}, at::kFloat)};
}

/// native_batch_norm_backward(grad_out, input, weight, ..., mask): the bias is like the weight.
Outputs batch_norm_backward(Values in) {
  return {like_if(in[9], 0, in[1]), like_if(in[9], 1, in[2]), like_if(in[9], 2, in[2])};
}

/// embedding_dense_backward(grad_output, indices, num_weights, ...)
Outputs embedding_backward(Values in) {
  const at::Tensor& grad = in[0].toTensor();
  return {dry_empty({in[2].toInt(), grad.size(-1)}, grad.scalar_type())};
}

/// index_select(self, dim, index)
Outputs index_select(Values in) {
  const at::Tensor& self = in[0].toTensor();
  std::vector<int64_t> sizes = self.sizes().vec();
  if (!sizes.empty()) {
    const int64_t dim = in[1].toInt();
    sizes[static_cast<size_t>(dim < 0 ? dim + self.dim() : dim)] = in[2].toTensor().numel();
  }
  return {dry_empty(sizes, self.scalar_type())};
}

/// where(condition, self, other)
Outputs where(Values in) {
  const at::Tensor &yes = in[1].toTensor(), &no = in[2].toTensor();
  const auto sizes =
      at::infer_size(at::infer_size(in[0].toTensor().sizes(), yes.sizes()), no.sizes());
  return {dry_empty(sizes, at::result_type(yes, no))};
}

/// Attention keeps [batch, tokens, heads, width] in memory.
at::Tensor tokens_first(const at::Tensor& like, int64_t width) {
  return dry_empty({like.size(0), like.size(2), like.size(1), width}, like.scalar_type())
      .transpose(1, 2);
}

Outputs attention(Values in) {
  const at::Tensor& query = in[0].toTensor();
  return {tokens_first(query, in[2].toTensor().size(3)),
          dry_empty({query.size(0), query.size(2), query.size(1)}, at::kFloat).transpose(1, 2)};
}

/// (grad_out, query, key, value, ...)
Outputs attention_backward(Values in) {
  Outputs out;
  for (size_t i = 1; i <= 3; ++i) {
    out.push_back(tokens_first(in[i].toTensor(), in[i].toTensor().size(3)));
  }
  return out;
}

/// _adaptive_avg_pool2d(self, output_size)
Outputs adaptive_pool(Values in) {
  const at::Tensor& self = in[0].toTensor();
  std::vector<int64_t> sizes = self.sizes().vec();
  const auto wanted_size = integers(in[1]);
  std::copy(wanted_size.begin(), wanted_size.end(), sizes.end() - 2);
  return {dry_empty(sizes, self.scalar_type())};
}

/// (self): like it.
Outputs like_first(Values in) {
  return {dry_like(in[0].toTensor())};
}

/// (grad_output, self): like self.
Outputs like_second(Values in) {
  return {dry_like(in[1].toTensor())};
}

using Shapes = Outputs (*)(Values);

const std::map<std::string, Shapes>& known() {
  static const std::map<std::string, Shapes> kKnown = {
      {"aten::convolution", &dry_convolution},
      {"aten::convolution_backward", &dry_convolution_backward},
      {"aten::native_layer_norm", &layer_norm},
      {"aten::native_layer_norm_backward", &layer_norm_backward},
      {"aten::native_batch_norm", &batch_norm},
      {"aten::native_batch_norm_backward", &batch_norm_backward},
      {"aten::embedding_dense_backward", &embedding_backward},
      {"aten::index_select", &index_select},
      {"aten::relu", &like_first},
      {"aten::where", &where},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", &attention},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", &attention_backward},
      {"aten::_adaptive_avg_pool2d", &adaptive_pool},
      {"aten::_adaptive_avg_pool2d_backward", &like_second}};
  return kKnown;
}

double numel(const c10::IValue& value) {
  return static_cast<double>(value.toTensor().numel());
}

double size(const c10::IValue& value, int64_t dim) {
  return static_cast<double>(value.toTensor().size(dim));
}

/// Of one product of queries with keys, or of its like.
double attention_flops(const c10::IValue& query, const c10::IValue& key) {
  return 2.0 * numel(query) * size(key, 2);
}

}  // namespace

bool dry_output(const std::string& op, torch::jit::Stack& stack, size_t arguments) {
  const auto found = known().find(op);
  if (found == known().end()) return false;
  const Values in = torch::jit::last(stack, arguments);
  Outputs out = found->second(in);
  if (op == "aten::convolution") {
    DryScope::meter()->add_flops(convolution_flops(in, out[0]));
  }
  torch::jit::drop(stack, arguments);
  for (at::Tensor& tensor : out) stack.emplace_back(std::move(tensor));
  return true;
}

double flops_of(const std::string& op, c10::ArrayRef<c10::IValue> in) {
  if (op == "aten::mm" || op == "aten::bmm") return 2 * numel(in[0]) * size(in[1], -1);
  if (op == "aten::addmm" || op == "aten::baddbmm") return 2 * numel(in[1]) * size(in[2], -1);
  if (op == "aten::addmv") return 2 * numel(in[1]);
  if (op == "aten::convolution_backward") return convolution_backward_flops(in);
  constexpr double kForward = 2, kBackward = 5;  // products, those done again included
  if (op == "aten::_scaled_dot_product_flash_attention_for_cpu") {
    return kForward * attention_flops(in[0], in[1]);
  }
  if (op == "aten::_scaled_dot_product_flash_attention_for_cpu_backward") {
    return kBackward * attention_flops(in[1], in[2]);
  }
  return 0;
}

}  // namespace accel
