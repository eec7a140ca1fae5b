// A task: what a step computes. Here it is cross-entropy (after Lin et al., 2017) that counts a
// sample the less, the surer the model is of it already.
//
// A task gives the mean loss of a batch, ready for backward(), and how much the batch counts when
// means are put together. Accumulation, clipping, precision and ranks are not its business.
#include <string>
#include <vector>

#include "core/api/model.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct FocalOptions {
  double gamma = 2.0;
};

class Focal final : public Task {
 public:
  static constexpr auto kName = "example/focal";
  static constexpr auto kSummary = "Classification in which hard samples count most.";

  static Schema<FocalOptions> schema() {
    return Schema<FocalOptions>().field(
        "gamma", &FocalOptions::gamma,
        "How much less a sample counts that is classified well; 0 is cross-entropy.",
        at_least(0.0));
  }

  Focal(const FocalOptions& options, const TaskContext& context) : gamma_(options.gamma) {
    if (context.data.classes > 0) return;
    throw Error(ExitCode::kRecipe, "'example/focal' wants classes, which the data has not",
                "the task 'regression' is for numbers");
  }

  double weight(const Batch& batch) const override { return static_cast<double>(batch.size()); }

  at::Tensor loss(Model& model, const Batch& batch) override { return evaluate(model, batch).loss; }

  Evaluation evaluate(Model& model, const Batch& batch) override {
    const at::Tensor logits = model.forward_batch(batch).to(at::kFloat);
    const at::Tensor log_chance =
        logits.log_softmax(1).gather(1, batch.targets.unsqueeze(1)).squeeze(1);
    const at::Tensor doubt = log_chance.exp().neg().add(1).clamp_min(1e-6).pow(gamma_);
    return {doubt.mul(log_chance).mean().neg(), logits};
  }

  std::vector<std::string> metrics() const override { return {"accuracy", "f1", "top_k"}; }
  std::vector<std::string> default_metrics() const override { return {"accuracy"}; }

 private:
  double gamma_;
};

const Register<Focal> focal;

}  // namespace
}  // namespace accel
