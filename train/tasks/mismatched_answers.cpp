#include "train/tasks/mismatched_answers.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>

#include <algorithm>

#include "core/api/targets.h"
#include "kernels/choice.h"

namespace accel {

Batch mismatched_answers(const Batch& batch, int64_t max_length) {
  const auto before = [](const at::Tensor& rows) { return rows.roll({1}, {0}); };
  const int64_t width = batch.inputs.size(1);
  // [rows, 1]
  const at::Tensor prompts =
      batch.targets.ne(kIgnoredTarget).to(at::kLong).argmax(1, /*keepdim=*/true).add(1);
  const at::Tensor answers = batch.lengths.unsqueeze(1).sub(prompts);
  const at::Tensor lengths = prompts.add(before(answers)).clamp_max(max_length);
  const int64_t longest =
      has_shapes_only() ? std::min(2 * width, max_length) : lengths.max().item<int64_t>();
  const at::Tensor places = at::arange(longest, lengths.options()).unsqueeze(0);
  const at::Tensor in_prompt = places.lt(prompts);
  const at::Tensor own = places.clamp_max(width - 1).expand({batch.size(), longest});
  const at::Tensor other = before(prompts).add(places).sub(prompts).clamp(0, width - 1);
  const at::Tensor is_padding = places.ge(lengths);
  const at::Tensor tokens =
      at::where(in_prompt, batch.inputs.gather(1, own), before(batch.inputs).gather(1, other));
  Batch out;
  out.inputs = tokens.masked_fill(is_padding, 0);
  const at::Tensor learnt = places.ge(prompts.sub(1)).logical_and(places.lt(lengths.sub(1)));
  out.targets = at::where(learnt, out.inputs.roll({-1}, {1}), kIgnoredTarget);
  out.lengths = lengths.squeeze(1);
  out.ids = batch.ids;
  return out;
}

}  // namespace accel
