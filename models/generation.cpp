#include "models/generation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/tensor.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <optional>

#include "models/decoding.h"
#include "models/sampling.h"

namespace accel {
namespace {

/// The model without dropout, for a while.
class EvalScope {
 public:
  explicit EvalScope(torch::nn::Module& module) : module_(module), was_(module.is_training()) {
    if (was_) module_.eval();
  }
  ~EvalScope() {
    if (was_) module_.train();
  }
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  torch::nn::Module& module_;
  bool was_;
};

/// A text on its way through the model.
class TokenTape {
 public:
  TokenTape(LanguageModel& model, std::vector<int64_t> tokens, int64_t window)
      : model_(model),
        decoder_(dynamic_cast<CachedDecoder*>(&model)),
        tokens_(std::move(tokens)),
        window_(decoder_ ? decoder_->longest() : window) {
    keep(window_);
  }

  void add(int64_t token) {
    tokens_.push_back(token);
    if (window_ > 0 && static_cast<int64_t>(tokens_.size()) > window_) {
      keep(std::max<int64_t>(1, window_ / 2));
      cache_ = {};
      seen_ = 0;
    }
  }

  /// Of the token that comes next, [vocab] in float32.
  at::Tensor logits() {
    const auto fresh = decoder_ ? static_cast<ptrdiff_t>(seen_) : 0;
    const at::Tensor tokens =
        at::tensor(at::ArrayRef<int64_t>(&tokens_[static_cast<size_t>(fresh)],
                                         tokens_.size() - static_cast<size_t>(fresh)))
            .unsqueeze(0)
            .to(model_.head_weight().device());
    const at::Tensor hidden =
        decoder_ ? decoder_->hidden_next(tokens, cache_) : model_.hidden(tokens);
    seen_ = tokens_.size();
    const at::Tensor last = hidden.select(1, hidden.size(1) - 1);
    return at::linear(last, model_.head_weight()).flatten().to(at::kCPU, at::kFloat).contiguous();
  }

 private:
  /// Forgets all but the newest tokens.
  void keep(int64_t count) {
    const auto size = static_cast<int64_t>(tokens_.size());
    if (count > 0 && size > count) tokens_.erase(tokens_.begin(), tokens_.end() - count);
  }

  LanguageModel& model_;
  CachedDecoder* decoder_;  // null: a model that sees everything anew
  std::vector<int64_t> tokens_;
  int64_t window_;
  KeyValueCache cache_;
  size_t seen_ = 0;  // tokens in the cache
};

}  // namespace

GeneratedTokens generate_tokens(LanguageModel& model, std::vector<int64_t> prompt,
                                const GenerationRequest& request) {
  const at::NoGradGuard no_grad;
  const EvalScope no_dropout(model.module());
  TokenTape tape(model, std::move(prompt), request.window);
  SampleRng rng(static_cast<uint64_t>(request.sampling.seed), request.stream, 0);
  GeneratedTokens out;
  for (int64_t i = 0; i < request.sampling.max_new_tokens; ++i) {
    const at::Tensor logits = tape.logits();
    const std::span<const float> values(logits.const_data_ptr<float>(),
                                        static_cast<size_t>(logits.numel()));
    const int64_t token = choose_token(values, request.sampling, rng);
    out.ended = request.ends.contains(token);
    if (out.ended) break;
    out.tokens.push_back(token);
    tape.add(token);
  }
  return out;
}

}  // namespace accel
