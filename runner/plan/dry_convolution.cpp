#include "runner/plan/dry_convolution.h"

#include <ATen/native/ConvUtils.h>

#include <array>
#include <tuple>

#include "kernels/convolution.h"
#include "kernels/kernels.h"
#include "runner/plan/dry_scope.h"
#include "runner/plan/dry_tensor.h"

namespace accel {
namespace {

using Values = c10::ArrayRef<c10::IValue>;
using Outputs = std::vector<at::Tensor>;
using at::native::ConvBackend;

/// What both directions are given.
struct Convolution {
  /// `in` has input, weight, something about the bias, and the rest from `first` on.
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

  bool by_products() const {
    return stands_for_fused() && convolves_by_products(x, weight, call());
  }

  /// Which of ATen's ways is taken.
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

/// Products that are a convolution's and count as that.
class UncountedWork {
 public:
  UncountedWork() : before_(DryScope::meter()->flops()) {}
  ~UncountedWork() { DryScope::meter()->add_flops(before_ - DryScope::meter()->flops()); }
  UncountedWork(const UncountedWork&) = delete;
  UncountedWork& operator=(const UncountedWork&) = delete;

 private:
  double before_;
};

int64_t in_blocks(int64_t channels) {
  static const int64_t block = __builtin_cpu_supports("avx512f") ? 16 : 8;
  return (channels + block - 1) / block * block;
}

/// Copies as oneDNN lays out images and filters: channels in blocks as wide as the processor's
/// registers, the last one filled up. Images of up to three channels it takes as they are.
class BlockedCopies {
 public:
  explicit BlockedCopies(const Convolution& convolution)
      : convolution_(convolution),
        plain_(!convolution.transposed && convolution.groups == 1 && convolution.x.size(1) <= 3) {}

  /// Undefined: there is none.
  at::Tensor of_input() const {
    return plain_ ? at::Tensor() : of_images(convolution_.x.sizes().vec());
  }

  at::Tensor of_images(std::vector<int64_t> sizes) const {
    sizes[1] = in_blocks(sizes[1]);
    return dry_empty(sizes, convolution_.x.scalar_type());
  }

  at::Tensor of_filters() const {
    std::vector<int64_t> sizes = convolution_.weight.sizes().vec();
    sizes[0] = in_blocks(sizes[0]);
    if (!plain_ && convolution_.groups == 1) sizes[1] = in_blocks(sizes[1]);
    return dry_empty(sizes, convolution_.x.scalar_type());
  }

 private:
  const Convolution& convolution_;
  bool plain_;
};

/// What ATen rearranges images to before a product, where oneDNN is not worth it.
at::Tensor columns_of(const Convolution& convolution, at::IntArrayRef output) {
  int64_t windows = output[0];
  for (const int64_t size : output.slice(2)) windows *= size;
  const at::Tensor& weight = convolution.weight;
  return dry_empty({windows, weight.numel() / weight.size(0)}, weight.scalar_type());
}

bool is_onednn(ConvBackend way) {
  return way == ConvBackend::Mkldnn || way == ConvBackend::MkldnnTranspose;
}

/// `make_blocked` gives a result as oneDNN lays it out, and lets go of what that was made of.
template <typename MakeBlocked>
at::Tensor rearranged(at::IntArrayRef sizes, at::ScalarType type, const MakeBlocked& make_blocked) {
  const at::Tensor blocked = make_blocked();
  return dry_empty(sizes, type);
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
  return dry_empty(x.sizes(), x.scalar_type());
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
  return dry_empty(weight.sizes(), weight.scalar_type());
}

std::array<bool, 3> wanted(Values in) {
  const c10::List<bool> mask = in[10].toBoolList();
  return {mask.get(0), mask.get(1), mask.get(2)};
}

/// Multiplications and additions for each value of the side with the larger windows.
double flops_once(const Convolution& convolution, const at::Tensor& output) {
  const at::Tensor &side = convolution.transposed ? convolution.x : output,
                   &weight = convolution.weight;
  return 2.0 * static_cast<double>(side.numel()) * static_cast<double>(weight.numel()) /
         static_cast<double>(weight.size(0));
}

}  // namespace

std::vector<at::Tensor> dry_convolution(Values in) {
  const Convolution convolution(in, 0);
  if (convolution.by_products()) {
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
  return {dry_empty(sizes, type)};
}

std::vector<at::Tensor> dry_convolution_backward(Values in) {
  const Convolution convolution(in, 1);
  const at::Tensor& grad = in[0].toTensor();
  const std::array<bool, 3> gradients = wanted(in);
  if (convolution.by_products()) {
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
  if (gradients[2]) out[2] = dry_empty({grad.size(1)}, grad.scalar_type());
  return out;
}

double convolution_flops(Values in, const at::Tensor& output) {
  return flops_once(Convolution(in, 0), output);
}

double convolution_backward_flops(Values in) {
  const std::array<bool, 3> gradients = wanted(in);
  return flops_once(Convolution(in, 1), in[0].toTensor()) * (gradients[0] + gradients[1]);
}

}  // namespace accel
