// Token classification, such as named entity recognition.
#include <algorithm>
#include <string>

#include "core/api/targets.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"
#include "train/tasks/divided_sequences.h"
#include "train/tasks/token_scores.h"

namespace accel {
namespace {

struct TokenClassificationOptions {};

class TokenClassification final : public Task, public DividedSequences, public SamplesLabels {
 public:
  static constexpr auto kName = "token_classification";
  static constexpr const char* kHintFor[] = {"ner", "token-classification"};
  static constexpr auto kSummary = "Cross-entropy on the labels of tokens.";

  static Schema<TokenClassificationOptions> schema() {
    return Schema<TokenClassificationOptions>();
  }

  TokenClassification(const TokenClassificationOptions&, const TaskContext& context)
      : has_entities_(of_entities(context.data.labels)) {
    const DataShape& data = context.data;
    if (data.input.empty()) return;
    if (data.classes > 0 && data.target == data.input && data.target_type == DType::kI64) return;
    throw Error(
        ExitCode::kRecipe,
        "the task 'token_classification' needs a label for each token, but the data's input is " +
            std::string(name_of(data.input_type)) + " " + to_string(data.input) +
            " and the target " + name_of(data.target_type) + " " + to_string(data.target) +
            (data.classes > 0 ? "" : ", without known labels"),
        "the dataset 'token_classification' has such labels");
  }

  double weight(const Batch& batch) const override { return counted_targets(batch); }

  at::Tensor loss(Model& model, const Batch& batch) override {
    return divided_loss(model, batch, of_positions(model));
  }

  /// The output is the likeliest label at each position, int64 [batch, length].
  Evaluation evaluate(Model& model, const Batch& batch) override {
    return divided_evaluation(model, batch, of_positions(model));
  }

  at::Tensor sampled_loss(Model& model, const Batch& batch,
                          const LabelDraws& draws) const override {
    return sampled_token_loss(kName, model, kModelHint, batch, draws);
  }

  std::vector<std::string> metrics() const override { return {"entity_f1", "accuracy", "f1"}; }
  std::vector<std::string> default_metrics() const override {
    return {has_entities_ ? "entity_f1" : "accuracy"};
  }

 private:
  static constexpr auto kModelHint = "a model such as 'bert' labels each token with 'head: labels'";

  /// Whether the labels are BIO tags, such as "B-PER".
  static bool of_entities(const std::vector<std::string>& labels) {
    return std::any_of(labels.begin(), labels.end(),
                       [](const std::string& label) { return label.starts_with("B-"); });
  }

  static PositionLoss of_positions(Model& model) { return token_loss(kName, model, kModelHint); }

  bool has_entities_;
};

const Register<TokenClassification> token_classification;

}  // namespace
}  // namespace accel
