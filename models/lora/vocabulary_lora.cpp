// Adapters of embeddings and of language models' heads.
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "core/base/error.h"
#include "models/layers/adapted_embedding.h"
#include "models/lora/adapters_off.h"

namespace accel {
bool HeadAdapter::is_on() const {
  return !pair_.a.is_empty() && !AdaptersOff::is_active();
}

at::Tensor HeadAdapter::widened_inputs(const at::Tensor& x) const {
  if (!is_on()) return x;
  const at::Tensor dropped = dropout_ > 0 ? at::dropout(x, dropout_, true) : x;
  torch::nn::Linear a = pair_.a;
  const at::Tensor low = a->forward(dropped).mul(scale_);
  return at::cat({x, low.to(x.scalar_type())}, -1);
}

at::Tensor HeadAdapter::widened_weight(const at::Tensor& weight) const {
  return is_on() ? at::cat({weight, pair_.b->weight}, 1) : weight;
}

HeadAdapter AdaptedLinearImpl::head_adapter() const {
  if (!is_adapted()) return {};
  return {{lora_a_, lora_b_}, scale_, is_training() ? dropout_ : 0};
}

at::Tensor AdaptedEmbeddingImpl::forward(const at::Tensor& tokens) {
  return adapted(torch::nn::EmbeddingImpl::forward(tokens), tokens);
}

at::Tensor AdaptedEmbeddingImpl::adapted(const at::Tensor& rows, const at::Tensor& tokens) const {
  if (!is_adapted() || AdaptersOff::is_active()) return rows;
  const int64_t padding = options.padding_idx().value_or(-1);
  const at::Tensor low = at::embedding(lora_a_.t(), tokens, padding);
  return rows.add(low.matmul(lora_b_.t()).mul(scale_));
}

void AdaptedEmbeddingImpl::adapt(const LoraOptions& lora) {
  const torch::NoGradGuard no_grad;
  // Draws PEFT's random numbers: A is drawn before it is set to zero, and B twice.
  const at::Tensor a = at::randn({lora.rank, options.num_embeddings()});
  const at::Tensor b = at::randn({options.embedding_dim(), lora.rank});
  lora_a_ = register_parameter("lora_embedding_A", a.zero_());
  lora_b_ = register_parameter("lora_embedding_B", b.normal_());
  scale_ = lora.scale();
}

void TiedHeadImpl::adapt(const LoraOptions& lora) {
  if (lora.init == LoraInit::kPissa || lora.init == LoraInit::kOlora) {
    throw Error(ExitCode::kRecipe,
                "'lora.init' pissa and olora would change the embedding that the head is tied to",
                "write 'init: default', or take 'lm_head' out of 'target_modules'");
  }
  const AdapterPair pair = make_adapter(inputs_, outputs_, lora);
  lora_a_ = register_module("lora_A", pair.a);
  lora_b_ = register_module("lora_B", pair.b);
  dropout_ = lora.dropout;
  scale_ = lora.scale();
}

void TiedHeadImpl::hold(FrozenWeight copy) {
  copy_ = std::move(copy);
  register_parameter("weight", copy_->stored(), /*requires_grad=*/false);
  copy_->register_scales(*this);
}

HeadAdapter TiedHeadImpl::head_adapter() const {
  if (!is_adapted()) return {};
  return {{lora_a_, lora_b_}, scale_, is_training() ? dropout_ : 0};
}

}  // namespace accel
