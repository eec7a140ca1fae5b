// Guessing hidden tokens.
#include <ATen/ops/cross_entropy_loss.h>

#include <string>

#include "core/error.h"
#include "core/model.h"
#include "core/registry.h"
#include "core/targets.h"
#include "core/task.h"

namespace accel {
namespace {

struct MaskedLmOptions {};

class MaskedLm final : public Task {
 public:
  static constexpr auto kName = "masked_lm";
  static constexpr auto kSummary =
      "Cross-entropy on the tokens that the transform 'mask_tokens' has hidden.";

  static Schema<MaskedLmOptions> schema() { return Schema<MaskedLmOptions>(); }

  MaskedLm(const MaskedLmOptions&, const TaskContext& context) {
    const DataShape& data = context.data;
    if (data.input.empty()) return;
    if (data.vocab == 0 || data.target != data.input || data.target_type != DType::kI64) {
      throw Error(
          ExitCode::kRecipe,
          std::string("the task 'masked_lm' wants a token to guess at each place, but of the "
                      "data the input is ") +
              name_of(data.input_type) + " " + to_string(data.input) + " and the target " +
              name_of(data.target_type) + " " + to_string(data.target),
          "add the transform 'mask_tokens' to data of tokens");
    }
  }

  double weight(const Batch& batch) const override {
    return static_cast<double>(batch.targets.ne(kIgnoredTarget).sum().item<int64_t>());
  }

  at::Tensor loss(Model& model, const Batch& batch) override {
    return mean_loss(scores(model, batch), batch);
  }

  /// The output is the likeliest token at each place, int64 [batch, length].
  Evaluation evaluate(Model& model, const Batch& batch) override {
    const at::Tensor logits = scores(model, batch);
    return {mean_loss(logits, batch), logits.argmax(-1)};
  }

  std::vector<std::string> metrics() const override { return {"perplexity", "accuracy"}; }
  std::vector<std::string> default_metrics() const override { return {"perplexity"}; }

 private:
  /// [batch, length, vocab]
  static at::Tensor scores(Model& model, const Batch& batch) {
    const at::Tensor logits = model.forward_batch(batch).to(at::kFloat);
    if (logits.dim() == 3 && logits.size(1) == batch.targets.size(1)) return logits;
    throw Error(ExitCode::kRecipe,
                "the task 'masked_lm' wants scores for every token, but the model's output is " +
                    to_string(Shape(logits.sizes().begin(), logits.sizes().end())),
                "choose a model with a head for masked tokens");
  }

  at::Tensor mean_loss(const at::Tensor& logits, const Batch& batch) const {
    // The mean over no token is NaN, which must not reach the weights.
    if (weight(batch) == 0) return logits.sum().mul(0);
    return at::cross_entropy_loss(logits.flatten(0, 1), batch.targets.flatten(), {},
                                  at::Reduction::Mean, kIgnoredTarget);
  }
};

const Register<MaskedLm> masked_lm;

}  // namespace
}  // namespace accel
