// A label for each token, such as which name it is a part of.
#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/registry.h"
#include "core/targets.h"
#include "core/task.h"
#include "runner/tasks/token_scores.h"

namespace accel {
namespace {

struct TokenClassificationOptions {};

class TokenClassification final : public Task {
 public:
  static constexpr auto kName = "token_classification";
  static constexpr auto kSummary = "Cross-entropy on a label for each token that has one.";

  static Schema<TokenClassificationOptions> schema() {
    return Schema<TokenClassificationOptions>();
  }

  TokenClassification(const TokenClassificationOptions&, const TaskContext& context)
      : has_entities_(of_entities(context.data.labels)) {
    const DataShape& data = context.data;
    if (data.input.empty()) return;
    if (data.classes > 0 && data.target == data.input && data.target_type == DType::kI64) return;
    throw Error(ExitCode::kRecipe,
                "the task 'token_classification' wants a label for each token, but of the data "
                "the input is " +
                    std::string(name_of(data.input_type)) + " " + to_string(data.input) +
                    " and the target " + name_of(data.target_type) + " " + to_string(data.target) +
                    (data.classes > 0 ? "" : ", which is of no known labels"),
                "the data of type 'tagged_words' has such labels");
  }

  double weight(const Batch& batch) const override { return counted_targets(batch); }

  at::Tensor loss(Model& model, const Batch& batch) override {
    return mean_token_loss(scores(model, batch), batch);
  }

  /// The output is the likeliest label at each place, int64 [batch, length].
  Evaluation evaluate(Model& model, const Batch& batch) override {
    const at::Tensor all = scores(model, batch);
    return {mean_token_loss(all, batch), all.argmax(-1)};
  }

  std::vector<std::string> metrics() const override { return {"entity_f1", "accuracy", "f1"}; }
  std::vector<std::string> default_metrics() const override {
    return {has_entities_ ? "entity_f1" : "accuracy"};
  }

 private:
  /// Whether the labels say where a thing of several words begins: "B-PER".
  static bool of_entities(const std::vector<std::string>& labels) {
    return std::any_of(labels.begin(), labels.end(),
                       [](const std::string& label) { return label.starts_with("B-"); });
  }

  static at::Tensor scores(Model& model, const Batch& batch) {
    return token_scores(kName, model, batch,
                        "a model such as 'bert' labels each token with 'head: labels'");
  }

  bool has_entities_;
};

const Register<TokenClassification> token_classification;

}  // namespace
}  // namespace accel
