// Contrastive learning of images and texts (CLIP, Radford et al. 2021, arXiv:2103.00020).
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/stack.h>

#include <string>
#include <vector>

#include "core/api/dual_encoder.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "train/tasks/model_needs.h"

namespace accel {
namespace {

struct ContrastiveOptions {};

DualEncoder& dual_encoder(Model& model) {
  if (auto* found = dynamic_cast<DualEncoder*>(&model)) return *found;
  throw Error(ExitCode::kRecipe,
              "the task 'contrastive' needs a model of images and texts, which this one is not",
              "use a model such as 'clip'");
}

class Contrastive final : public Task, public WholeSequences, public ComparesSamples {
 public:
  static constexpr auto kName = "contrastive";
  static constexpr const char* kHintFor[] = {"clip", "clip_loss", "image_text_contrastive"};
  static constexpr auto kSummary =
      "Symmetric cross-entropy of the similarities of images and texts, each compared with those "
      "of its micro-batch on one rank: gradient accumulation and ranks add no further negatives.";

  static Schema<ContrastiveOptions> schema() { return {}; }

  Contrastive(const ContrastiveOptions&, const TaskContext& context) {
    const DataShape& data = context.data;
    if (data.input.empty() || has_image_texts(data)) return;
    throw Error(ExitCode::kRecipe,
                text("the task 'contrastive' needs an image and a text per sample, but a sample of "
                     "the data is {} {} with the target {} {}",
                     name_of(data.input_type), to_string(data.input), name_of(data.target_type),
                     to_string(data.target)),
                "use data of type 'image_text'");
  }

  double weight(const Batch& batch) const override { return static_cast<double>(batch.size()); }

  at::Tensor loss(Model& model, const Batch& batch) override {
    DualEncoder& encoder = dual_encoder(model);
    return loss_of(encoder.embed(batch), encoder.scale());
  }

  /// The output is the embeddings of each pair, [batch, 2, width].
  Evaluation evaluate(Model& model, const Batch& batch) override {
    DualEncoder& encoder = dual_encoder(model);
    const PairEmbeddings pairs = encoder.embed(batch);
    return {loss_of(pairs, encoder.scale()), at::stack({pairs.image, pairs.text}, 1)};
  }

  std::vector<std::string> metrics() const override { return {"retrieval_recall"}; }
  std::vector<std::string> default_metrics() const override { return metrics(); }

  bool compares_samples() const override { return true; }

 private:
  /// As transformers' CLIPModel: the mean of the losses of texts and of images.
  static at::Tensor loss_of(const PairEmbeddings& pairs, const at::Tensor& scale) {
    const at::Tensor of_texts = at::matmul(pairs.text, pairs.image.t()).mul(scale).to(at::kFloat);
    const at::Tensor own = at::arange(
        of_texts.size(0), at::TensorOptions().dtype(at::kLong).device(of_texts.device()));
    const at::Tensor texts = at::cross_entropy_loss(of_texts, own);
    return texts.add(at::cross_entropy_loss(of_texts.t(), own)).div(2);
  }
};

const Register<Contrastive> contrastive;

}  // namespace
}  // namespace accel
