#include "runner/plan/fake_operators.h"

#include <algorithm>
#include <array>
#include <map>

#include <ATen/ExpandUtils.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/result_type.h>

#include "kernels/choice.h"
#include "kernels/convolution.h"
#include "runner/plan/fake_tensor.h"

namespace accel {
namespace {

using Values = c10::ArrayRef<c10::IValue>;
using Outputs = std::vector<at::Tensor>;
using at::native::ConvBackend;

/// The arguments shared by forward and backward.
struct Convolution {
  /// `in` holds input, weight and bias; the other arguments start at `first`.
  Convolution(Values in, size_t first)
      : x(in[first].toTensor()),
        weight(in[first + 1].toTensor()),
        stride(integers(in[first + 3])),
        padding(integers(in[first + 4])),
        dilation(integers(in[first + 5])),
        transposed(in[first + 6].toBool()),
        extra(integers(in[first + 7])),
        groups(in[first + 8].toInt()) {}

  static std::vector<int64_t> integers(const c10::IValue& value) {
    return value.toDimVector().empty() ? std::vector<int64_t>{} : value.toIntVector();
  }

  ConvolutionCall call() const { return {stride, padding, dilation, transposed, extra, groups}; }

  bool by_products(ConvolutionPass pass) const {
    return fakes_fused() && convolves_by_products(x, weight, call(), pass);
  }

  /// The implementation that ATen selects.
  ConvBackend way() const {
    const auto symbolic = [](const std::vector<int64_t>& list) {
      return c10::fromIntArrayRefSlow(list);
    };
    return at::native::select_conv_backend(x, weight, std::nullopt, symbolic(stride),
                                           symbolic(padding), symbolic(dilation), transposed,
                                           symbolic(extra), groups, std::nullopt);
  }

  std::vector<int64_t> output_sizes() const {
    const auto at = [](const std::vector<int64_t>& list, size_t i) {
      return list[list.size() == 1 ? 0 : i];
    };
    std::vector<int64_t> sizes = {x.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
    for (size_t i = 0; i + 2 < static_cast<size_t>(x.dim()); ++i) {
      const auto dim = static_cast<int64_t>(i) + 2;
      const int64_t kernel = at(dilation, i) * (weight.size(dim) - 1) + 1;
      sizes.push_back(transposed ? (x.size(dim) - 1) * at(stride, i) - 2 * at(padding, i) + kernel +
                                       at(extra, i)
                                 : (x.size(dim) + 2 * at(padding, i) - kernel) / at(stride, i) + 1);
    }
    return sizes;
  }

  at::Tensor x, weight;
  std::vector<int64_t> stride, padding, dilation;
  bool transposed;
  std::vector<int64_t> extra;
  int64_t groups;
};

/// Matrix products within a convolution, which are counted as part of it.
class UncountedWork {
 public:
  UncountedWork() : before_(meter_of_thread()->flops()) {}
  ~UncountedWork() { meter_of_thread()->add_work(before_ - meter_of_thread()->flops(), 0); }
  UncountedWork(const UncountedWork&) = delete;
  UncountedWork& operator=(const UncountedWork&) = delete;

 private:
  double before_;
};

int64_t in_blocks(int64_t channels) {
  static const int64_t block = __builtin_cpu_supports("avx512f") ? 16 : 8;
  return (channels + block - 1) / block * block;
}

/// Copies in oneDNN's blocked layout: channels in blocks of the register width, the last block
/// padded. Images of up to three channels are not copied.
class BlockedCopies {
 public:
  explicit BlockedCopies(const Convolution& convolution)
      : convolution_(convolution),
        plain_(!convolution.transposed && convolution.groups == 1 && convolution.x.size(1) <= 3) {}

  /// May be undefined.
  at::Tensor of_input() const {
    return plain_ ? at::Tensor() : of_images(convolution_.x.sizes().vec());
  }

  at::Tensor of_images(std::vector<int64_t> sizes) const {
    sizes[1] = in_blocks(sizes[1]);
    return fake_empty(sizes, convolution_.x.scalar_type());
  }

  at::Tensor of_filters() const {
    std::vector<int64_t> sizes = convolution_.weight.sizes().vec();
    sizes[0] = in_blocks(sizes[0]);
    if (!plain_ && convolution_.groups == 1) sizes[1] = in_blocks(sizes[1]);
    return fake_empty(sizes, convolution_.x.scalar_type());
  }

 private:
  const Convolution& convolution_;
  bool plain_;
};

/// ATen's im2col buffer, where oneDNN is not used.
at::Tensor columns_of(const Convolution& convolution, at::IntArrayRef output) {
  int64_t windows = output[0];
  for (const int64_t size : output.slice(2)) windows *= size;
  const at::Tensor& weight = convolution.weight;
  return fake_empty({windows, weight.numel() / weight.size(0)}, weight.scalar_type());
}

bool is_onednn(ConvBackend way) {
  return way == ConvBackend::Mkldnn || way == ConvBackend::MkldnnTranspose;
}

/// `make_blocked` returns a result in oneDNN's layout and frees its inputs.
template <typename MakeBlocked>
at::Tensor rearranged(at::IntArrayRef sizes, at::ScalarType type, const MakeBlocked& make_blocked) {
  const at::Tensor blocked = make_blocked();
  return fake_empty(sizes, type);
}

at::Tensor gradient_of_input(const Convolution& convolution, const at::Tensor& grad,
                             ConvBackend way) {
  const at::Tensor& x = convolution.x;
  if (is_onednn(way)) {
    return rearranged(x.sizes(), x.scalar_type(), [&] {
      const BlockedCopies copies(convolution);
      const Outputs given = {copies.of_images(grad.sizes().vec()), copies.of_filters()};
      return copies.of_images(x.sizes().vec());
    });
  }
  const bool has_columns = way == ConvBackend::Slow2d;
  const at::Tensor columns = has_columns ? columns_of(convolution, grad.sizes()) : at::Tensor();
  return fake_empty(x.sizes(), x.scalar_type());
}

at::Tensor gradient_of_weight(const Convolution& convolution, const at::Tensor& grad,
                              ConvBackend way) {
  const at::Tensor& weight = convolution.weight;
  if (is_onednn(way)) {
    return rearranged(weight.sizes(), weight.scalar_type(), [&] {
      const BlockedCopies copies(convolution);
      const Outputs given = {copies.of_images(grad.sizes().vec()), copies.of_input()};
      return copies.of_filters();
    });
  }
  const bool has_columns = way == ConvBackend::Slow2d;
  const at::Tensor columns = has_columns ? columns_of(convolution, grad.sizes()) : at::Tensor();
  return fake_empty(weight.sizes(), weight.scalar_type());
}

std::array<bool, 3> wanted(Values in) {
  const c10::List<bool> mask = in[10].toBoolList();
  return {mask.get(0), mask.get(1), mask.get(2)};
}

/// Operations per value of the side with the larger receptive field.
double flops_once(const Convolution& convolution, const at::Tensor& output) {
  const at::Tensor &side = convolution.transposed ? convolution.x : output,
                   &weight = convolution.weight;
  return 2.0 * static_cast<double>(side.numel()) * static_cast<double>(weight.numel()) /
         static_cast<double>(weight.size(0));
}

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
  return fake_like(like.toTensor());
}

/// native_layer_norm(input, normalized_shape, weight, bias, eps)
Outputs layer_norm(Values in) {
  const at::Tensor& input = in[0].toTensor();
  std::vector<int64_t> rows = input.sizes().vec();
  const size_t normed = in[1].toDimVector().size();
  for (size_t i = rows.size() - normed; i < rows.size(); ++i) rows[i] = 1;
  return {fake_empty(input.sizes(), input.scalar_type()), fake_empty(rows, at::kFloat),
          fake_empty(rows, at::kFloat)};
}

/// native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, mask)
Outputs layer_norm_backward(Values in) {
  return {like_if(in[7], 0, in[1]), like_if(in[7], 1, in[5]), like_if(in[7], 2, in[6])};
}

/// native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
Outputs batch_norm(Values in) {
  const at::Tensor& input = in[0].toTensor();
  const int64_t kept = in[5].toBool() ? input.size(1) : 0;
  return {fake_like(input), fake_empty({kept}, at::kFloat), fake_empty({kept}, at::kFloat)};
}

/// native_batch_norm_backward(grad_out, input, weight, ..., mask): the bias is like the weight.
Outputs batch_norm_backward(Values in) {
  return {like_if(in[9], 0, in[1]), like_if(in[9], 1, in[2]), like_if(in[9], 2, in[2])};
}

/// embedding_dense_backward(grad_output, indices, num_weights, ...)
Outputs embedding_backward(Values in) {
  const at::Tensor& grad = in[0].toTensor();
  return {fake_empty({in[2].toInt(), grad.size(-1)}, grad.scalar_type())};
}

/// index_select(self, dim, index)
Outputs index_select(Values in) {
  const at::Tensor& self = in[0].toTensor();
  std::vector<int64_t> sizes = self.sizes().vec();
  if (!sizes.empty()) {
    const int64_t dim = in[1].toInt();
    sizes[static_cast<size_t>(dim < 0 ? dim + self.dim() : dim)] = in[2].toTensor().numel();
  }
  return {fake_empty(sizes, self.scalar_type())};
}

/// where(condition, self, other)
Outputs where(Values in) {
  const at::Tensor &yes = in[1].toTensor(), &no = in[2].toTensor();
  const auto sizes =
      at::infer_size(at::infer_size(in[0].toTensor().sizes(), yes.sizes()), no.sizes());
  return {fake_empty(sizes, at::result_type(yes, no))};
}

/// Attention keeps [batch, tokens, heads, width] in memory.
at::Tensor tokens_first(const at::Tensor& like, int64_t width) {
  return fake_empty({like.size(0), like.size(2), like.size(1), width}, like.scalar_type())
      .transpose(1, 2);
}

Outputs attention(Values in) {
  const at::Tensor& query = in[0].toTensor();
  return {tokens_first(query, in[2].toTensor().size(3)),
          fake_empty({query.size(0), query.size(2), query.size(1)}, at::kFloat).transpose(1, 2)};
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
  return {fake_empty(sizes, self.scalar_type())};
}

/// (self): like it.
Outputs like_first(Values in) {
  return {fake_like(in[0].toTensor())};
}

/// (grad_output, self): like self.
Outputs like_second(Values in) {
  return {fake_like(in[1].toTensor())};
}

using Shapes = Outputs (*)(Values);

const std::map<std::string, Shapes>& known() {
  static const std::map<std::string, Shapes> kKnown = {
      {"aten::convolution", &fake_convolution},
      {"aten::convolution_backward", &fake_convolution_backward},
      {"aten::native_layer_norm", &layer_norm},
      {"aten::native_layer_norm_backward", &layer_norm_backward},
      {"aten::native_batch_norm", &batch_norm},
      {"aten::native_batch_norm_backward", &batch_norm_backward},
      {"aten::embedding_dense_backward", &embedding_backward},
      {"aten::index_select", &index_select},
      {"aten::relu", &like_first},
      {"aten::flip", &like_first},
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

/// FLOPs of one attention product, such as queries with keys.
double attention_flops(const c10::IValue& query, const c10::IValue& key) {
  return 2.0 * numel(query) * size(key, 2);
}

}  // namespace

std::vector<at::Tensor> fake_convolution(Values in) {
  const Convolution convolution(in, 0);
  if (convolution.by_products(ConvolutionPass::kForward)) {
    const UncountedWork uncounted;
    return {convolve_by_products(convolution.x, convolution.weight, in[2].toOptional<at::Tensor>(),
                                 convolution.call())};
  }
  const auto sizes = convolution.output_sizes();
  const at::ScalarType type = convolution.x.scalar_type();
  const ConvBackend way = convolution.way();
  if (is_onednn(way)) {
    return {rearranged(sizes, type, [&] {
      const BlockedCopies copies(convolution);
      const Outputs given = {copies.of_input(), copies.of_filters()};
      return copies.of_images(sizes);
    })};
  }
  const bool has_columns = way == ConvBackend::Slow2d;
  const at::Tensor columns = has_columns ? columns_of(convolution, sizes) : at::Tensor();
  return {fake_empty(sizes, type)};
}

std::vector<at::Tensor> fake_convolution_backward(Values in) {
  const Convolution convolution(in, 1);
  const at::Tensor& grad = in[0].toTensor();
  const std::array<bool, 3> gradients = wanted(in);
  if (convolution.by_products(ConvolutionPass::kBackward)) {
    const UncountedWork uncounted;
    ConvolutionCall call = convolution.call();
    call.gradients = gradients;
    auto [by_input, by_weight, by_bias] =
        convolve_by_products_backward(grad, convolution.x, convolution.weight, call);
    return {by_input, by_weight, by_bias};
  }
  const ConvBackend way = convolution.way();
  Outputs out(3);
  if (gradients[0]) out[0] = gradient_of_input(convolution, grad, way);
  if (gradients[1]) out[1] = gradient_of_weight(convolution, grad, way);
  if (gradients[2]) out[2] = fake_empty({grad.size(1)}, grad.scalar_type());
  return out;
}

double convolution_flops(Values in, const at::Tensor& output) {
  return flops_once(Convolution(in, 0), output);
}

double convolution_backward_flops(Values in) {
  const std::array<bool, 3> gradients = wanted(in);
  return flops_once(Convolution(in, 1), in[0].toTensor()) * (gradients[0] + gradients[1]);
}

bool fake_output(const std::string& op, torch::jit::Stack& stack, size_t arguments) {
  const auto found = known().find(op);
  if (found == known().end()) return false;
  const Values in = torch::jit::last(stack, arguments);
  Outputs out = found->second(in);
  if (op == "aten::convolution") {
    meter_of_thread()->add_work(convolution_flops(in, out[0]), 0);
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
  constexpr double kForward = 2, kBackward = 5;  // products, including recomputed ones
  if (op == "aten::_scaled_dot_product_flash_attention_for_cpu") {
    return kForward * attention_flops(in[0], in[1]);
  }
  if (op == "aten::_scaled_dot_product_flash_attention_for_cpu_backward") {
    return kBackward * attention_flops(in[1], in[2]);
  }
  return 0;
}

}  // namespace accel
