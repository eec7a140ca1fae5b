#include "train/tasks/rollouts.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "core/api/sample_rng.h"
#include "core/api/targets.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "kernels/choice.h"

namespace accel {
namespace {

/// For an estimate: rows of the largest length.
Rollouts fake_rollouts(const Batch& batch, const RolloutOptions& options, int64_t functions) {
  const int64_t rows = batch.size() * options.num_generations;
  const at::Device device = batch.inputs.device();
  Rollouts out;
  out.rows.inputs =
      at::zeros({rows, options.max_length}, at::TensorOptions(at::kLong).device(device));
  out.rows.targets = out.rows.inputs;
  out.rows.lengths = at::full({rows}, options.max_length, out.rows.inputs.options());
  out.rows.ids.assign(static_cast<size_t>(rows), 0);
  out.mask = at::ones({rows, options.max_length}, at::TensorOptions(at::kFloat).device(device));
  out.rewards = at::zeros({rows, functions}, at::kDouble);
  out.lengths = at::ones({rows}, at::kDouble);
  out.truncated = at::zeros({rows}, at::kDouble);
  return out;
}

}  // namespace

Rollouts rollout_rows(const std::vector<SampledPrompt>& prompts,
                      const std::vector<SampledCompletion>& completions, bool mask_truncated,
                      at::Device device) {
  const auto rows = static_cast<int64_t>(prompts.size());
  int64_t longest = 1;
  for (size_t i = 0; i < prompts.size(); ++i) {
    longest = std::max<int64_t>(
        longest, static_cast<int64_t>(prompts[i].tokens.size() + completions[i].tokens.size()));
  }
  const at::Tensor inputs = at::zeros({rows, longest}, at::kLong);
  const at::Tensor targets = at::full({rows, longest}, kIgnoredTarget, at::kLong);
  const at::Tensor mask = at::zeros({rows, longest}, at::kFloat);
  Rollouts out;
  out.rows.lengths = at::empty({rows}, at::kLong);
  out.lengths = at::empty({rows}, at::kDouble);
  out.truncated = at::empty({rows}, at::kDouble);
  for (int64_t i = 0; i < rows; ++i) {
    const auto& prompt = prompts[static_cast<size_t>(i)].tokens;
    const SampledCompletion& completion = completions[static_cast<size_t>(i)];
    const size_t begin = prompt.size(), size = completion.tokens.size();
    int64_t* const input = inputs[i].mutable_data_ptr<int64_t>();
    std::copy(prompt.begin(), prompt.end(), input);
    std::copy(completion.tokens.begin(), completion.tokens.end(), input + begin);
    std::copy(completion.tokens.begin(), completion.tokens.end(),
              targets[i].mutable_data_ptr<int64_t>() + begin - 1);
    const bool counts = completion.ended || !mask_truncated;
    std::fill_n(mask[i].mutable_data_ptr<float>() + begin - 1, size, counts ? 1.0F : 0.0F);
    out.rows.lengths.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(begin + size);
    out.lengths.mutable_data_ptr<double>()[i] = static_cast<double>(size);
    out.truncated.mutable_data_ptr<double>()[i] = completion.ended ? 0 : 1;
    out.texts.push_back(completion.text);
    out.prompt_ids.push_back(prompt);
    out.completion_ids.push_back(completion.tokens);
  }
  out.rows.inputs = inputs.to(device);
  out.rows.targets = targets.to(device);
  out.rows.lengths = out.rows.lengths.to(device);
  out.mask = mask.to(device);
  return out;
}

std::vector<SampledPrompt> RolloutSampler::requests(const Batch& batch, int64_t step) const {
  const at::Tensor tokens = batch.inputs.to(at::kCPU).contiguous();
  const at::Tensor lengths = batch.lengths.to(at::kCPU).contiguous();
  std::vector<SampledPrompt> out;
  for (int64_t i = 0; i < batch.size(); ++i) {
    const int64_t* const first = tokens.const_data_ptr<int64_t>() + i * tokens.size(1);
    const std::vector<int64_t> prompt(first, first + lengths.const_data_ptr<int64_t>()[i]);
    const auto id = static_cast<uint64_t>(batch.ids[static_cast<size_t>(i)]);
    SampleRng streams(source_.seed, static_cast<uint64_t>(step), id);
    const uint64_t stream = streams.next();
    for (int64_t g = 0; g < options_.num_generations; ++g) {
      out.push_back({prompt, stream + static_cast<uint64_t>(g)});
    }
  }
  return out;
}

at::Tensor RolloutSampler::score(const std::vector<PromptRow>& rows,
                                 const std::vector<SampledPrompt>& prompts,
                                 const std::vector<SampledCompletion>& completions) const {
  const auto group = static_cast<size_t>(options_.num_generations);
  std::vector<ScoredCompletion> items;
  for (size_t i = 0; i < completions.size(); ++i) {
    items.push_back({rows[i / group], completions[i].text, prompts[i].tokens, completions[i].tokens,
                     !completions[i].ended});
  }
  const auto functions = static_cast<int64_t>(rewards_.size());
  const at::Tensor out =
      at::empty({static_cast<int64_t>(completions.size()), functions}, at::kDouble);
  for (int64_t k = 0; k < functions; ++k) {
    const auto values = rewards_[static_cast<size_t>(k)]->score(items);
    const std::string& name = names_[static_cast<size_t>(k)];
    if (values.size() != items.size()) {
      throw std::logic_error(text("the reward '{}' returned {} rewards for {} completions", name,
                                  values.size(), items.size()));
    }
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] && !std::isfinite(*values[i])) {
        throw DataError(
            text("the reward '{}' is not finite for a completion of {}", name, items[i].row.place),
            "return no reward where it does not apply");
      }
      out.mutable_data_ptr<double>()[static_cast<int64_t>(i) * functions + k] =
          values[i].value_or(NAN);
    }
  }
  return out;
}

Rollouts RolloutSampler::sample(const Batch& batch, int64_t step, bool is_training) const {
  if (has_shapes_only()) {
    return fake_rollouts(batch, options_, static_cast<int64_t>(rewards_.size()));
  }
  const at::NoGradGuard no_grad;
  const std::vector<SampledPrompt> prompts = requests(batch, step);
  CompletionOptions sampling = options_.sampling;
  sampling.seed = static_cast<int64_t>(source_.seed);
  const std::vector<SampledCompletion> completions = source_.sampler->sample(prompts, sampling);
  std::vector<PromptRow> rows;
  for (const int64_t id : batch.ids) {
    rows.push_back(is_training ? source_.train_row(id) : source_.eval_row(id));
  }
  Rollouts out = rollout_rows(prompts, completions, options_.mask_truncated, batch.inputs.device());
  for (const int64_t id : batch.ids) {
    out.rows.ids.insert(out.rows.ids.end(), static_cast<size_t>(options_.num_generations), id);
  }
  out.rewards = score(rows, prompts, completions);
  for (PromptRow& row : rows) out.prompts.push_back(std::move(row.prompt));
  return out;
}

}  // namespace accel
