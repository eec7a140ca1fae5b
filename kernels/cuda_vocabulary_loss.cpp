#include "kernels/cuda_vocabulary_loss.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "kernels/cuda_library.h"

namespace accel {
namespace {

constexpr int64_t kAlignment = 16;   // bytes
constexpr int64_t kPaddedRows = 64;  // a multiple of it, for whole tiles of products

/// Rows of the weight in products: `classes`, or more for aligned rows of logits.
int64_t padded_classes(const at::Tensor& weight) {
  const int64_t classes = weight.size(0);
  const bool is_aligned = classes * weight.element_size() % kAlignment == 0;
  return is_aligned ? classes : (classes + kPaddedRows - 1) / kPaddedRows * kPaddedRows;
}

/// With rows of zeros.
at::Tensor padded(const at::Tensor& x, int64_t rows) {
  if (!x.defined() || x.size(0) == rows) return x;
  const int64_t count = x.size(0);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[0] = rows;
  at::Tensor out = at::empty(sizes, x.options());
  out.narrow(0, 0, count).copy_(x);
  out.narrow(0, count, rows - count).zero_();
  return out;
}

bool takes(const VocabularyLossCall& call) {
  const at::Tensor& hidden = call.hidden;
  return cuda_kernels(hidden.device()) && is_for_cuda_kernels(hidden) &&
         call.weight.scalar_type() == hidden.scalar_type() && call.targets.is_contiguous() &&
         call.targets.scalar_type() == at::kLong && call.hidden.size(0) > 0;
}

/// The loop over chunks of tokens.
class Chunks {
 public:
  explicit Chunks(const VocabularyLossCall& call)
      : call_(call),
        rows_(padded_classes(call.weight)),
        weight_(padded(call.weight, rows_)),
        bias_(padded(call.bias, rows_)),
        logits_(at::empty({std::min(call.chunk, tokens()), rows_}, call.hidden.options())),
        sums_(at::empty({2, tokens()}, wide())),
        slope_(call.targets.ne(call.ignored)
                   .sum()
                   .clamp_min(1)
                   .to(at::kFloat)
                   .reciprocal()
                   .reshape({1})),
        by_hidden_(at::empty_like(call.hidden)) {}

  VocabularyLoss run() {
    for (int64_t start = 0; start < tokens(); start += call_.chunk) {
      run(start, std::min(call_.chunk, tokens() - start));
    }
    // In double: thousands of losses.
    const at::Tensor total = sums_[1].sum(at::kDouble);
    const auto of_classes = [&](const at::Tensor& x) {
      return x.defined() ? x.narrow(0, 0, call_.weight.size(0)) : x;
    };
    return {total.mul(slope_[0]).to(at::kFloat), by_hidden_, of_classes(by_weight_),
            of_classes(by_bias_)};
  }

 private:
  int64_t tokens() const { return call_.hidden.size(0); }
  at::TensorOptions wide() const { return call_.hidden.options().dtype(at::kFloat); }

  void run(int64_t start, int64_t length) {
    const at::Tensor hidden = call_.hidden.narrow(0, start, length);
    at::Tensor logits = logits_.narrow(0, 0, length);
    if (bias_.defined()) {
      at::addmm_out(logits, bias_, hidden, weight_.t());
    } else {
      at::mm_out(logits, hidden, weight_.t());
    }
    replace_by_gradient(logits, start);
    at::Tensor by_hidden = by_hidden_.narrow(0, start, length);
    at::mm_out(by_hidden, logits, weight_);
    if (call_.needs_weight_gradient) add(by_weight_, logits.t().mm(hidden));
    if (bias_.defined()) add(by_bias_, logits.sum(0, /*keepdim=*/false, at::kFloat));
  }

  void replace_by_gradient(const at::Tensor& logits, int64_t start) const {
    CudaCrossEntropy in = {};
    in.type = cuda_type(logits);
    in.rows = logits.size(0);
    in.classes = call_.weight.size(0);
    in.stride = rows_;
    in.ignored = call_.ignored;
    in.logits = in.gradient = logits.mutable_data_ptr();
    in.targets = call_.targets.const_data_ptr<int64_t>() + start;
    in.log_sums = sums_.mutable_data_ptr<float>() + start;
    in.losses = in.log_sums + tokens();
    in.row_slope = slope_.const_data_ptr<float>();
    run_cuda_kernel(logits.device(), cuda_kernels(logits.device())->cross_entropy, in);
  }

  static void add(at::Tensor& to, const at::Tensor& x) {
    if (to.defined()) {
      to.add_(x);
    } else {
      to = x.to(at::kFloat);
    }
  }

  const VocabularyLossCall& call_;
  int64_t rows_;
  at::Tensor weight_, bias_;
  at::Tensor logits_;  ///< of a chunk, then their gradient
  at::Tensor sums_;    ///< [2, tokens]: logs of sums of exponentials, losses
  at::Tensor slope_;   ///< [1]: 1 / number of targets that are not ignored, 1 for none
  at::Tensor by_hidden_, by_weight_, by_bias_;
};

}  // namespace

bool has_cuda_vocabulary_loss(at::Device device) {
  return cuda_kernels(device) != nullptr;
}

std::optional<VocabularyLoss> cuda_vocabulary_loss(const VocabularyLossCall& call) {
  if (!takes(call)) return std::nullopt;
  return Chunks(call).run();
}

}  // namespace accel
