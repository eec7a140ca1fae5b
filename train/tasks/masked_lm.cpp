// Masked language modeling: cross-entropy on masked tokens.
#include <string>

#include "core/api/task.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"
#include "train/tasks/token_scores.h"

namespace accel {
namespace {

struct MaskedLmOptions {};

class MaskedLm final : public Task {
 public:
  static constexpr auto kName = "masked_lm";
  static constexpr const char* kHintFor[] = {"mlm", "fill-mask"};
  static constexpr auto kSummary = "Cross-entropy on tokens masked by the transform 'mask_tokens'.";

  static Schema<MaskedLmOptions> schema() { return Schema<MaskedLmOptions>(); }

  MaskedLm(const MaskedLmOptions&, const TaskContext& context) {
    const DataShape& data = context.data;
    if (data.input.empty()) return;
    if (data.vocab == 0 || data.target != data.input || data.target_type != DType::kI64) {
      throw Error(ExitCode::kRecipe,
                  std::string("the task 'masked_lm' needs a target token at each position, but the "
                              "data's input is ") +
                      name_of(data.input_type) + " " + to_string(data.input) + " and the target " +
                      name_of(data.target_type) + " " + to_string(data.target),
                  "add the transform 'mask_tokens' to data of tokens");
    }
  }

  double weight(const Batch& batch) const override { return counted_targets(batch); }

  at::Tensor loss(Model& model, const Batch& batch) override {
    return mean_token_loss(scores(model, batch), batch);
  }

  /// The output is the likeliest token at each position, int64 [batch, length].
  Evaluation evaluate(Model& model, const Batch& batch) override {
    const at::Tensor logits = scores(model, batch);
    return {mean_token_loss(logits, batch), logits.argmax(-1)};
  }

  std::vector<std::string> metrics() const override { return {"perplexity", "accuracy"}; }
  std::vector<std::string> default_metrics() const override { return {"perplexity"}; }

 private:
  static at::Tensor scores(Model& model, const Batch& batch) {
    return token_scores(kName, model, batch, "choose a model with a head for masked tokens");
  }
};

const Register<MaskedLm> masked_lm;

}  // namespace
}  // namespace accel
