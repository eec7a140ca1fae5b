#include "kernels/rotate_pairs.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "kernels/choice.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/parallel.h"

namespace accel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kPairsGrain = 32768;  // minimum elements per thread

using PairLoop = void (*)(const PairRow& of, const float* x, float* y);

/// Writes loop(row of x) to each row of `y`; both [batch, heads, length, width].
void for_each_head(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines,
                   const at::Tensor& y, PairLoop loop) {
  if (fakes_fused()) return;
  const float *const from = x.const_data_ptr<float>(),
                     *const cosine = cosines.const_data_ptr<float>(),
                     *const sine = sines.const_data_ptr<float>();
  float* const to = y.mutable_data_ptr<float>();
  const int64_t heads = x.size(1), length = x.size(2), width = x.size(3);
  const int64_t rotated = cosines.size(-1), batch_step = cosines.dim() == 4 ? length * rotated : 0;
  const auto place = [](const at::Tensor& of, int64_t batch, int64_t head, int64_t position) {
    return batch * of.stride(0) + head * of.stride(1) + position * of.stride(2);
  };
  const int64_t grain = std::max<int64_t>(1, kPairsGrain / (heads * width));
  for_each_part(x.size(0) * length, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t batch = i / length, position = i % length;
      const int64_t turn = batch * batch_step + position * rotated;
      const PairRow row = {cosine + turn, sine + turn, rotated / 2, width};
      for (int64_t head = 0; head < heads; ++head) {
        loop(row, from + place(x, batch, head, position), to + place(y, batch, head, position));
      }
    }
  });
}

class PairsOnCpu : public torch::autograd::Function<PairsOnCpu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& cosines, const at::Tensor& sines) {
    context->save_for_backward({cosines, sines});
    at::Tensor y = at::empty_like(x);
    for_each_head(x, cosines, sines, y, &rotate_pairs_cpu);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& given = gradients[0];
    const at::Tensor dy = given.stride(-1) == 1 ? given : given.contiguous();
    at::Tensor dx = at::empty_like(dy);
    for_each_head(dy, saved[0], saved[1], dx, &rotate_pairs_backward_cpu);
    return {dx, {}, {}};
  }
};

bool takes_turns(const at::Tensor& turns, const at::Tensor& x) {
  const bool by_row = turns.dim() == 4;
  return turns.is_cpu() && turns.scalar_type() == at::kFloat && turns.is_contiguous() &&
         turns.size(-1) % 2 == 0 && turns.size(-2) == x.size(2) &&
         (turns.dim() == 2 || (by_row && turns.size(0) == x.size(0) && turns.size(1) == 1));
}

bool takes_pairs(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines) {
  return allocates_as_fused() && x.is_cpu() && x.dim() == 4 && x.scalar_type() == at::kFloat &&
         x.numel() > 0 && x.stride(3) == 1 && takes_turns(cosines, x) && takes_turns(sines, x) &&
         !cosines.requires_grad() && !sines.requires_grad();
}

}  // namespace

at::Tensor rotate_pairs(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines) {
  if (takes_pairs(x, cosines, sines)) return PairsOnCpu::apply(x, cosines, sines);
  const int64_t rotated = cosines.size(-1), width = x.size(-1);
  const at::Tensor part = rotated < width ? x.narrow(-1, 0, rotated) : x;
  const std::vector<at::Tensor> halves = part.chunk(2, -1);
  const at::Tensor swapped = at::cat({halves[1].neg(), halves[0]}, -1);
  const at::Tensor turned =
      part.mul(cosines.to(x.scalar_type())).add(swapped.mul(sines.to(x.scalar_type())));
  return rotated < width ? at::cat({turned, x.narrow(-1, rotated, width - rotated)}, -1) : turned;
}

}  // namespace accel
