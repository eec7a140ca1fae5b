// Multi-head training: a loss for each head of the model.
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/mse_loss.h>

#include <map>
#include <string>
#include <vector>

#include "core/api/heads.h"
#include "core/api/targets.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {
enum class HeadLoss { kCrossEntropy, kMse, kBce };
}  // namespace

template <>
struct EnumNames<HeadLoss> {
  static constexpr std::pair<HeadLoss, const char*> kValues[] = {
      {HeadLoss::kCrossEntropy, "cross_entropy"}, {HeadLoss::kMse, "mse"}, {HeadLoss::kBce, "bce"}};
};

namespace {

struct HeadSection {
  HeadLoss loss = HeadLoss::kMse;
  int64_t column = 0;
  double weight = 1;

  static Schema<HeadSection> schema() {
    return Schema<HeadSection>()
        .field("loss", &HeadSection::loss,
               "cross_entropy: one target, a class; mse: a number for each output of the head; "
               "bce: 0 or 1 for each output.")
        .field("column", &HeadSection::column, "Index of this head's first target in a sample.",
               at_least<int64_t>(0))
        .field("weight", &HeadSection::weight, "Weight of its loss.", at_least(0.0));
  }
};

struct MultiHeadOptions {
  std::map<std::string, HeadSection> heads;
};

class MultiHeadTask final : public Task {
 public:
  static constexpr auto kName = "multi_head";
  static constexpr auto kRenamedFrom = "multi";
  static constexpr auto kSummary = "Several heads, each with a weighted loss.";

  static Schema<MultiHeadOptions> schema() {
    return Schema<MultiHeadOptions>()
        .field("heads", &MultiHeadOptions::heads,
               "The loss of each of the model's heads, by name: `{kind: {loss: cross_entropy}, "
               "size: {loss: mse, column: 1, weight: 0.1}}`.")
        .required();
  }

  MultiHeadTask(const MultiHeadOptions& options, const TaskContext& context)
      : heads_(options.heads) {
    if (context.data.target.size() == 1 || context.data.input.empty()) return;
    throw Error(ExitCode::kRecipe,
                "the task 'multi_head' wants samples with a row of targets, not " +
                    to_string(context.data.target),
                "a table gives one for several 'target' columns");
  }

  double weight(const Batch& batch) const override { return static_cast<double>(batch.size()); }

  at::Tensor loss(Model& model, const Batch& batch) override { return evaluate(model, batch).loss; }

  Evaluation evaluate(Model& model, const Batch& batch) override {
    at::Tensor output = model.forward_batch(batch).to(at::kFloat);
    return {weighted(losses(model, output, batch)), output};
  }

  std::vector<std::string> metrics() const override { return {}; }
  std::vector<std::string> default_metrics() const override { return {}; }

  double step(StepContext& context) override {
    // Sums of each head's loss over this rank's samples, and the number of samples.
    const auto count = static_cast<int64_t>(heads_.size());
    const at::Tensor sums = at::full({count + 1}, 0, at::TensorOptions(at::kDouble));
    auto* sum = sums.mutable_data_ptr<double>();
    const double loss = context.update(kRecipeOptimizer, [&](const Batch& batch) {
      Model& model = context.model();
      const std::vector<at::Tensor> parts =
          losses(model, model.forward_batch(batch).to(at::kFloat), batch);
      for (size_t i = 0; i < parts.size(); ++i) {
        sum[i] += parts[i].item().toDouble() * weight(batch);
      }
      sum[count] += weight(batch);
      return weighted(parts);
    });
    const at::Tensor all = context.ranks().reduce(sums, Reduce::kSum);
    const auto* total = all.const_data_ptr<double>();
    size_t i = 0;
    for (const auto& [name, section] : heads_) {
      context.log("loss_" + name, total[i++] / total[count]);
    }
    return loss;
  }

 private:
  /// In the order of heads_ and of the model's outputs.
  std::vector<at::Tensor> losses(Model& model, const at::Tensor& output, const Batch& batch) const {
    std::vector<at::Tensor> out;
    int64_t first = 0;
    for (const auto& [name, outputs] : heads_of(model)) {
      const HeadSection& section = heads_.at(name);
      const bool one = section.loss == HeadLoss::kCrossEntropy;
      check_columns(name, section.column + (one ? 1 : outputs), batch.targets.size(1));
      const at::Tensor said = output.narrow(1, first, outputs);
      const at::Tensor wanted = batch.targets.narrow(1, section.column, one ? 1 : outputs);
      if (one) check_classes(name, wanted, outputs);
      out.push_back(loss_of(section.loss, said, wanted));
      first += outputs;
    }
    return out;
  }

  /// Throws DataError for targets that are not class numbers, as those of a wrong column.
  static void check_classes(const std::string& name, const at::Tensor& wanted, int64_t outputs) {
    const at::Tensor classes = wanted.to(at::kLong);
    const at::Tensor known = classes.ge(0).logical_and(classes.lt(outputs));
    const at::Tensor good =
        classes.eq(wanted).logical_and(known.logical_or(classes.eq(kIgnoredTarget)));
    if (good.all().item<bool>()) return;
    const auto wrong = wanted.masked_select(good.logical_not())[0].item<double>();
    throw DataError(text("the target of head '{}' is {}, and its classes are 0 to {}", name,
                         show_number(wrong), outputs - 1),
                    "check 'column' of the head, or its number of outputs");
  }

  static at::Tensor loss_of(HeadLoss loss, const at::Tensor& said, const at::Tensor& wanted) {
    switch (loss) {
      case HeadLoss::kCrossEntropy:
        return at::cross_entropy_loss(said, wanted.select(1, 0).to(at::kLong));
      case HeadLoss::kBce:
        return at::binary_cross_entropy_with_logits(said, wanted.to(at::kFloat));
      default:
        return at::mse_loss(said, wanted.to(at::kFloat));
    }
  }

  at::Tensor weighted(const std::vector<at::Tensor>& losses) const {
    at::Tensor total;
    size_t i = 0;
    for (const auto& [name, section] : heads_) {
      const at::Tensor part = losses[i++].mul(section.weight);
      total = total.defined() ? total.add(part) : part;
    }
    return total;
  }

  const std::map<std::string, int64_t>& heads_of(Model& model) const {
    auto* several = dynamic_cast<MultiHead*>(&model);
    if (!several) {
      throw Error(ExitCode::kRecipe,
                  "the task 'multi_head' needs a model with several heads, and this one has none",
                  "the model 'heads' adds them to any model");
    }
    for (const auto& [name, outputs] : several->heads()) {
      if (heads_.contains(name)) continue;
      throw Error(ExitCode::kRecipe, text("the model's head '{}' has no loss", name),
                  text("add '{}' to 'task.heads'", name));
    }
    for (const auto& [name, section] : heads_) {
      if (several->heads().contains(name)) continue;
      throw Error(ExitCode::kRecipe, text("the model has no head '{}'", name));
    }
    return several->heads();
  }

  static void check_columns(const std::string& name, int64_t wanted, int64_t available) {
    if (wanted <= available) return;
    throw Error(
        ExitCode::kRecipe,
        text("the head '{}' needs {} targets, including those before it, but samples have {}", name,
             wanted, available));
  }

  std::map<std::string, HeadSection> heads_;
};

const Register<MultiHeadTask> multi_head;

}  // namespace
}  // namespace accel
