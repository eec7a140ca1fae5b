// CLIP (Radford et al. 2021, arXiv:2103.00020): a transformer of texts and one of images, whose
// embeddings are compared. Parameter names are those of transformers' CLIPModel.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <torch/nn/init.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/api/dual_encoder.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "models/clip/clip_tower.h"
#include "models/hf/register_pretrained.h"
#include "models/layers/input_spec.h"
#include "models/layers/sizes.h"

namespace accel {
namespace {

constexpr auto kClip = "clip";

[[noreturn]] void refuse_targets(const std::string& found) {
  throw Error(ExitCode::kRecipe,
              text("the model '{}' needs an image and a text per sample, but {}", kClip, found),
              "use data of type 'image_text'");
}

AdaptedLinear clip_projection(torch::nn::Module& in, const char* name, int64_t width,
                              const ClipOptions& options) {
  const auto sizes = torch::nn::LinearOptions(width, options.projection_dim).bias(false);
  AdaptedLinear layer = in.register_module(name, AdaptedLinear(sizes));
  const torch::NoGradGuard no_grad;
  torch::nn::init::normal_(layer->weight, 0.0,
                           options.initializer_factor / std::sqrt(static_cast<double>(width)));
  return layer;
}

at::Tensor of_length_one(const at::Tensor& x) {
  return x.div(x.pow(2).sum(-1, /*keepdim=*/true).sqrt());
}

class Clip final : public DualEncoder, public InputSpec {
 public:
  static constexpr auto kName = kClip;
  static constexpr const char* kHintFor[] = {"openclip", "open_clip", "clip_model"};
  static constexpr auto kSummary =
      "A CLIP dual encoder, which embeds images and texts in one space.";
  static constexpr bool kGenerates = false;

  static Schema<ClipOptions> schema() { return ClipOptions::schema(); }
  static bool reads(const std::string& model_type) { return model_type == kClip; }
  static ClipOptions from_config(HfConfig& config) { return ClipOptions::from_config(config); }
  static void to_config(const ClipOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config) {
    options.to_config(shapes, config);
  }
  static HfNames names(const ClipOptions&) {
    HfNames out;
    out.unused = {"*.embeddings.position_ids"};
    return out;
  }

  Clip(const ClipOptions& options, const ModelContext& context) {
    const DataShape& data = context.data;
    check_pairs(data);
    const bool known = !data.input.empty();
    const ClipVisionOptions& vision = options.vision;
    const int64_t side =
        equal_size({kClip, "vision.image_size", vision.image_size, known ? data.input[1] : 0});
    const int64_t channels =
        equal_size({kClip, "vision.channels", vision.channels, known ? data.input[0] : 0});
    if (side % vision.patch_size != 0) {
      throw Error(ExitCode::kRecipe,
                  text("an image's side of {} is not a multiple of 'vision.patch_size' {}", side,
                       vision.patch_size),
                  "choose another 'patch_size', or resize the images");
    }
    image_ = {channels, side, side};
    vocab_ = sufficient_size({kClip, "text.vocab_size", options.text.vocab_size, data.vocab});
    longest_ = sufficient_size(
        {kClip, "text.max_seq_len", options.text.max_seq_len, known ? data.target[0] : 0});
    const int64_t row = side / vision.patch_size;
    const at::Tensor scale = at::full({}, options.logit_scale_init_value);
    scale_ = net_->register_parameter("logit_scale", scale);
    text_ =
        net_->register_module("text_model", std::make_shared<ClipText>(vocab_, longest_, options));
    vision_ = net_->register_module("vision_model",
                                    std::make_shared<ClipVision>(channels, row * row, options));
    of_image_ = clip_projection(*net_, "visual_projection", vision.hidden_size, options);
    of_text_ = clip_projection(*net_, "text_projection", options.text.hidden_size, options);
  }

  PairEmbeddings embed(const Batch& batch) override {
    const at::Tensor& texts = batch.targets;
    if (!texts.defined() || texts.dim() != 2 || texts.scalar_type() != at::kLong) {
      refuse_targets(text("the targets are {}", texts.defined() ? shape_text(texts) : "none"));
    }
    const at::Tensor image = of_image_->forward(vision_->forward(batch.inputs));
    const at::Tensor text = of_text_->forward(text_->forward(texts));
    return {of_length_one(image), of_length_one(text)};
  }
  at::Tensor forward_batch(const Batch& batch) override {
    const PairEmbeddings pairs = embed(batch);
    return at::stack({pairs.image, pairs.text}, 1);
  }
  at::Tensor scale() override { return scale_.exp(); }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "contrastive"; }

  void validate_input(const DataShape& data) const override {
    check_pairs(data);
    check_one_shape(kClip, image_, data);
    sufficient_size({kClip, "text.vocab_size", {vocab_}, data.vocab});
    sufficient_size(
        {kClip, "text.max_seq_len", {longest_}, data.target.empty() ? 0 : data.target[0]});
  }

 private:
  /// Throws Error (kRecipe) for samples that are no pairs of a square image and a text.
  static void check_pairs(const DataShape& data) {
    if (data.input.empty()) return;
    want_images(kClip, data);
    if (!has_image_texts(data)) {
      refuse_targets(text("a sample of the data has the target {} {}", name_of(data.target_type),
                          to_string(data.target)));
    }
    if (data.input[1] == data.input[2]) return;
    throw Error(ExitCode::kRecipe,
                text("the model '{}' requires square images, not {}", kClip, to_string(data.input)),
                "add a transform that crops or resizes them");
  }

  std::shared_ptr<torch::nn::Module> net_ = std::make_shared<torch::nn::Module>();
  at::Tensor scale_;
  std::shared_ptr<ClipText> text_;
  std::shared_ptr<ClipVision> vision_;
  AdaptedLinear of_image_{nullptr}, of_text_{nullptr};
  Shape image_;
  int64_t vocab_, longest_;
};

const RegisterPretrained<Clip> clip;

}  // namespace
}  // namespace accel
