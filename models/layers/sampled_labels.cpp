#include "models/layers/sampled_labels.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/softmax.h>

#include "core/api/sample_rng.h"
#include "core/api/targets.h"
#include "kernels/choice.h"

namespace accel {
namespace {

/// Of the random streams of sampled labels, apart from those of augmentation.
constexpr uint64_t kLabelStream = 0x534f504849410000;

}  // namespace

at::Tensor LabelDraws::uniform(int64_t per_sample, const at::Tensor& like) const {
  const auto rows = static_cast<int64_t>(samples_.size());
  const at::Tensor numbers = at::empty({rows, per_sample}, at::kFloat);
  for (int64_t i = 0; i < rows && !has_shapes_only(); ++i) {
    SampleRng rng(kLabelStream + seed_, static_cast<uint64_t>(step_),
                  static_cast<uint64_t>(samples_[static_cast<size_t>(i)]));
    numbers[i].uniform_(0, 1, at::detail::createCPUGenerator(rng.next()));
  }
  return numbers.flatten().to(like.device());
}

at::Tensor sample_labels(const at::Tensor& logits, const at::Tensor& targets,
                         const at::Tensor& uniform) {
  const at::Tensor bounds = at::softmax(logits.detach().to(at::kFloat), 1).cumsum_(1);
  const int64_t last = bounds.size(1) - 1;
  // Rounding leaves a sum near 1.
  const at::Tensor wanted = uniform.unsqueeze(1).mul(bounds.narrow(1, last, 1));
  const at::Tensor labels = at::searchsorted(bounds, wanted, /*out_int32=*/false, /*right=*/true)
                                .squeeze(1)
                                .clamp_max(last);
  return labels.masked_fill(targets.eq(kIgnoredTarget), kIgnoredTarget);
}

}  // namespace accel
