// Models small enough that a test can write out what a task makes of them.
#pragma once

#include <ATen/ops/tensor.h>

#include <stdexcept>
#include <vector>

#include "core/api/model.h"

namespace accel {

/// Its output is its input.
class EchoModel final : public Model {
 public:
  at::Tensor forward(const at::Tensor& inputs) override { return inputs; }
  torch::nn::Module& module() override { throw std::logic_error("a fake has no module"); }
  const char* default_task() const override { return "classification"; }
};

/// Embeds tokens by one table and reads them off by another.
class TableModel final : public LanguageModel {
 public:
  TableModel(at::Tensor embedding, at::Tensor head)
      : embedding_(std::move(embedding)), head_(std::move(head)) {}

  at::Tensor hidden(const at::Tensor& tokens) override {
    const at::Tensor rows = embedding_.index_select(0, tokens.flatten());
    return rows.view({tokens.size(0), tokens.size(1), embedding_.size(1)});
  }
  at::Tensor head_weight() override { return head_; }
  at::Tensor forward(const at::Tensor& tokens) override { return hidden(tokens).matmul(head_.t()); }
  torch::nn::Module& module() override { throw std::logic_error("a fake has no module"); }
  const char* default_task() const override { return "causal_lm"; }

 private:
  at::Tensor embedding_, head_;
};

/// A batch whose samples are numbered from 0.
inline Batch numbered_batch(const at::Tensor& inputs, const at::Tensor& targets) {
  Batch batch{inputs, targets, {}};
  for (int64_t i = 0; i < inputs.size(0); ++i) batch.ids.push_back(i);
  return batch;
}

/// One sample of three places; the scores are 0 but for class 2 at the first place.
inline Batch three_places(const std::vector<int64_t>& targets) {
  at::Tensor scores = at::tensor(std::vector<double>{0, 0, 3, 0, 0, 0, 0, 0, 0}, at::kFloat);
  return numbered_batch(scores.view({1, 3, 3}), at::tensor(targets, at::kLong).view({1, 3}));
}

}  // namespace accel
