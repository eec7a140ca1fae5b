// Multi-label classification: binary cross-entropy with logits on 0 or 1 for each label, as
// transformers' problem_type multi_label_classification.
#include "train/tasks/multi_label.h"

#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <optional>
#include <string>

#include "core/api/model.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "train/tasks/divided_sequences.h"

namespace accel {
namespace {

/// Throws unless `count` numbers are given for `labels`; 0 labels: not known.
void check_count(const char* option, size_t count, int64_t labels) {
  if (labels == 0 || count == static_cast<size_t>(labels)) return;
  throw Error(ExitCode::kRecipe,
              text("'{}' has {} numbers, but the data has {} labels", option, count, labels));
}

int64_t labels_in(const DataShape& data) {
  return data.target.size() == 1 ? data.target.front() : 0;
}

class MultiLabelClassification final : public Task, public DividedSequences {
 public:
  static constexpr auto kName = kMultiLabelTask;
  static constexpr const char* kHintFor[] = {"multi_label", "multilabel", "bce",
                                             "binary_cross_entropy"};
  static constexpr auto kSummary = "Binary cross-entropy on any number of labels per sample.";

  static Schema<MultiLabelOptions> schema() { return MultiLabelOptions::schema(); }

  MultiLabelClassification(const MultiLabelOptions& options, const TaskContext& context) {
    const DataShape& data = context.data;
    const bool known = !data.input.empty();
    if (known && (data.target_type != DType::kF32 || data.target.size() != 1)) {
      throw Error(ExitCode::kRecipe,
                  text("the task '{}' wants F32 numbers of 0 or 1 for each label, but the targets "
                       "of the data are {} {}",
                       kName, name_of(data.target_type), to_string(data.target)),
                  "tables and records give them by 'target_type: labels'");
    }
    const int64_t labels = labels_in(data);
    std::vector<double> shift;
    for (const double threshold : options.thresholds(labels)) {
      shift.push_back(std::log(threshold / (1 - threshold)));
    }
    shift_ = at::tensor(shift, at::kFloat);
    if (options.pos_weight.empty()) return;
    check_count("pos_weight", options.pos_weight.size(), labels);
    pos_weight_ = at::tensor(options.pos_weight, at::kFloat);
  }

  double weight(const Batch& batch) const override { return static_cast<double>(batch.size()); }

  at::Tensor loss(Model& model, const Batch& batch) override {
    return equal_part(model, evaluate(model, batch).loss);
  }

  /// The output is positive where the label is predicted.
  Evaluation evaluate(Model& model, const Batch& batch) override {
    const DividedEvaluation divided(context_ranks(model));
    const at::Tensor logits = model.forward_batch(batch).to(at::kFloat);
    check_batch(logits, batch.targets);
    std::optional<at::Tensor> weight;
    if (pos_weight_.defined()) weight = pos_weight_.to(logits.device());
    return {at::binary_cross_entropy_with_logits(logits, batch.targets, {}, weight),
            logits.detach().sub(shift_.to(logits.device()))};
  }

  std::vector<std::string> metrics() const override { return {"label_f1", "roc_auc"}; }
  std::vector<std::string> default_metrics() const override { return {"label_f1"}; }

 private:
  static void check_batch(const at::Tensor& logits, const at::Tensor& targets) {
    if (logits.sizes() != targets.sizes()) {
      throw Error(ExitCode::kRecipe, text("the model's output is {}, but the targets are {}",
                                          shape_text(logits), shape_text(targets)));
    }
    if (!targets.is_cpu() || targets.numel() == 0) return;
    if (targets.min().item<float>() >= 0 && targets.max().item<float>() <= 1) return;
    throw DataError("a target of multi-label classification is not between 0 and 1",
                    "for other numbers write 'task: regression'");
  }

  at::Tensor shift_;       ///< logits of the thresholds
  at::Tensor pos_weight_;  ///< undefined: 1
};

const Register<MultiLabelClassification> multi_label_classification;

}  // namespace

Schema<MultiLabelOptions> MultiLabelOptions::schema() {
  return Schema<MultiLabelOptions>()
      .field("threshold", &MultiLabelOptions::threshold,
             "Probability from which a label is predicted, for all labels or for each. Lower ones "
             "find more labels, with more false ones. Of metrics and 'predict', not of training.",
             each(Rule<double>{[](const double& x) { return x > 0 && x < 1; }, "in (0, 1)",
                               "\"exclusiveMinimum\": 0, \"exclusiveMaximum\": 1"}))
      .field("pos_weight", &MultiLabelOptions::pos_weight,
             "Loss weight of each label where it is 1; empty: 1. Larger ones for rare labels.",
             each(more_than(0.0)));
}

std::vector<double> MultiLabelOptions::thresholds(int64_t labels) const {
  if (threshold.size() == 1) return std::vector<double>(std::max<size_t>(labels, 1), threshold[0]);
  check_count("threshold", threshold.size(), labels);
  return threshold;
}

}  // namespace accel
