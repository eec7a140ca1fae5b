// Vision transformer (ViT): an image as a sequence of patches, with a classification token.
// Parameter names are those of Hugging Face's ViT.
#include <ATen/ops/cat.h>
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/api/block.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "models/hf/hf_sizes.h"
#include "models/hf/problem_type.h"
#include "models/hf/register_pretrained.h"
#include "models/layers/activation_checkpoint.h"
#include "models/layers/activations.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/context_parallel.h"
#include "models/layers/input_spec.h"
#include "models/layers/self_attention.h"
#include "models/layers/sizes.h"
#include "models/layers/tensor_parallel.h"
#include "models/layers/token_positions.h"
#include "models/layers/transformer_schema.h"

namespace accel {
namespace {

struct VitOptions {
  Auto<int64_t> image_size;
  Auto<int64_t> channels;
  Auto<int64_t> num_classes;
  int64_t patch_size = 4;
  int64_t num_layers = 4;
  int64_t num_heads = 4;
  int64_t hidden_size = 128;
  Auto<int64_t> intermediate_size;
  HfActivation activation = HfActivation::kGelu;
  double norm_eps = 1e-12;
  bool attention_bias = true;
  double dropout = 0.0;
  Auto<double> attention_dropout;
  Auto<ProblemType> problem_type;
  LoraOptions lora;
  QuantizationOptions quantization;
  FilePath weights;
};

constexpr double kVitWeightDeviation = 0.02;

/// trunc_normal_ of torch.nn.init, step by step, with transformers' default bounds of two.
void truncated_normal(at::Tensor& tensor, double deviation) {
  constexpr double kBound = 2.0;
  const torch::NoGradGuard no_grad;
  const double share = std::erf(kBound / deviation / std::sqrt(2.0));
  tensor.uniform_(-share, share).erfinv_().mul_(deviation * std::sqrt(2.0)).clamp_(-kBound, kBound);
}

/// A module whose submodules are registered by its creator.
using VitPart = torch::nn::Module;

std::shared_ptr<VitPart> vit_part(VitPart& in, const char* name) {
  return in.register_module(name, std::make_shared<VitPart>());
}

AdaptedLinear vit_linear(VitPart& in, const char* name, int64_t inputs, int64_t outputs,
                         bool bias = true) {
  const auto options = torch::nn::LinearOptions(inputs, outputs).bias(bias);
  return in.register_module(name, AdaptedLinear(options));
}

torch::nn::LayerNorm vit_norm(VitPart& in, const char* name, const VitOptions& options) {
  const auto norm = torch::nn::LayerNormOptions({options.hidden_size}).eps(options.norm_eps);
  return in.register_module(name, torch::nn::LayerNorm(norm));
}

class VitLayer final : public torch::nn::Module, public Block {
 public:
  VitLayer(const VitOptions& options, const TensorRanksPtr& ranks)
      : ranks_(ranks),
        heads_(options.num_heads / (ranks ? ranks->size() : 1)),
        activation_(options.activation),
        dropout_(options.dropout),
        attention_dropout_(options.attention_dropout.value_or(options.dropout)) {
    const int64_t width = options.hidden_size,
                  hidden = options.intermediate_size.value_or(4 * width);
    const auto attention = vit_part(*this, "attention");
    const auto self = vit_part(*attention, "attention");
    query_ = vit_linear(*self, "query", width, width, options.attention_bias);
    key_ = vit_linear(*self, "key", width, width, options.attention_bias);
    value_ = vit_linear(*self, "value", width, width, options.attention_bias);
    attended_ = vit_linear(*vit_part(*attention, "output"), "dense", width, width);
    inner_ = vit_linear(*vit_part(*this, "intermediate"), "dense", width, hidden);
    outer_ = vit_linear(*vit_part(*this, "output"), "dense", hidden, width);
    before_ = vit_norm(*this, "layernorm_before", options);
    after_ = vit_norm(*this, "layernorm_after", options);
    attended_->divide_inputs(ranks);
    outer_->divide_inputs(ranks);
  }

  /// The output has `places` of the inputs.
  at::Tensor forward(const at::Tensor& inputs, const VisibleKeys& keys, TokenPositions places) {
    const at::Tensor normal = enter(ranks_, before_->forward(inputs));
    const double dropout = is_training() ? attention_dropout_ : 0.0;
    at::Tensor heads;
    {
      const auto stream = own_random_stream(ranks_, inputs.device(), dropout > 0);
      heads = attend({*query_, *key_, *value_, heads_, dropout}, normal, keys, places);
    }
    const at::Tensor x = dropped(attended_->forward(heads)).add(select_cls_token(inputs, places));
    const at::Tensor entered = enter(ranks_, after_->forward(x));
    return dropped(feed_forward(activation_, *inner_, *outer_, entered)).add(x);
  }

 private:
  at::Tensor dropped(const at::Tensor& x) const { return at::dropout(x, dropout_, is_training()); }

  TensorRanksPtr ranks_;
  int64_t heads_;  ///< of this rank
  HfActivation activation_;
  double dropout_, attention_dropout_;
  AdaptedLinear query_{nullptr}, key_{nullptr}, value_{nullptr}, attended_{nullptr};
  AdaptedLinear inner_{nullptr}, outer_{nullptr};
  torch::nn::LayerNorm before_{nullptr}, after_{nullptr};
};

class VitEncoder final : public torch::nn::Module {
 public:
  VitEncoder(int64_t channels, int64_t patches, const VitOptions& options,
             const TensorRanksPtr& ranks)
      : dropout_(options.dropout) {
    const auto embeddings = vit_part(*this, "embeddings");
    first_ = embeddings->register_parameter("cls_token", at::empty({1, 1, options.hidden_size}));
    positions_ = embeddings->register_parameter("position_embeddings",
                                                at::empty({1, patches + 1, options.hidden_size}));
    const auto kernel = torch::nn::Conv2dOptions(channels, options.hidden_size, options.patch_size)
                            .stride(options.patch_size);
    projection_ = vit_part(*embeddings, "patch_embeddings")
                      ->register_module("projection", torch::nn::Conv2d(kernel));
    torch::nn::ModuleList list;
    for (int64_t i = 0; i < options.num_layers; ++i) {
      layers_.push_back(std::make_shared<VitLayer>(options, ranks));
      list->push_back(layers_.back());
    }
    vit_part(*this, "encoder")->register_module("layer", list);
    norm_ = vit_norm(*this, "layernorm", options);
    truncated_normal(first_, kVitWeightDeviation);
    truncated_normal(positions_, kVitWeightDeviation);
    torch::nn::init::normal_(projection_->weight, 0.0, kVitWeightDeviation);
    torch::nn::init::zeros_(projection_->bias);
  }

  /// [batch, width] for images. Where ranks of `context` divide the positions, all compute the
  /// patches, and each has some of them in the layers.
  at::Tensor forward(const at::Tensor& images, const ContextRanksPtr& context) {
    at::Tensor x = chain_input(*layers_.front(), [&] {
      const at::Tensor patches = projection_->forward(images).flatten(2).transpose(1, 2);
      const at::Tensor all = at::cat({first_.expand({images.size(0), -1, -1}), patches}, 1);
      const at::Tensor whole = at::dropout(all.add(positions_), dropout_, is_training());
      return own_positions(context.get(), whole, 1, 0);
    });
    x = run_layers(x, context);
    return context ? norm_->forward(context->first_position(x)) : norm_->forward(x).select(1, 0);
  }
  std::vector<Block*> chain() const { return block_chain(layers_); }

 private:
  at::Tensor run_layers(at::Tensor x, const ContextRanksPtr& context) {
    const auto stream = is_training() ? own_random_stream(context, x.device()) : nullptr;
    const VisibleKeys keys =
        visible_in_lengths(context, {}, positions_.size(1), x.options().dtype(at::kLong));
    for (const auto& layer : layers_) {
      const bool is_last = layer == layers_.back() && !context;
      x = run_block(*layer, x, keys,
                    is_last ? positions_to_compute(TokenPositions::kFirst) : TokenPositions::kAll);
    }
    return x;
  }

  at::Tensor first_, positions_;
  torch::nn::Conv2d projection_{nullptr};
  std::vector<std::shared_ptr<VitLayer>> layers_;
  torch::nn::LayerNorm norm_{nullptr};
  double dropout_;
};

/// "vit.layers.0.attention.q_proj.weight" for
/// "vit.encoder.layer.0.attention.attention.query.weight"
std::string vit_module_name(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {".encoder.layer.", ".layers."},
      {".attention.attention.query.", ".attention.q_proj."},
      {".attention.attention.key.", ".attention.k_proj."},
      {".attention.attention.value.", ".attention.v_proj."},
      {".attention.output.dense.", ".attention.o_proj."},
      {".intermediate.dense.", ".mlp.fc1."},
      {".output.dense.", ".mlp.fc2."}};
  std::string out = name;
  for (const auto& [ours, theirs] : kNames) {
    if (const size_t at = out.find(ours); at != out.npos) out.replace(at, ours.size(), theirs);
  }
  return out;
}

class Vit final : public Model,
                  public TensorParallel,
                  public ContextParallel,
                  public BlockChain,
                  public InputSpec {
 public:
  static constexpr auto kName = "vit";
  static constexpr const char* kHintFor[] = {"vision_transformer"};
  static constexpr auto kSummary = "A vision transformer for square images.";
  static constexpr bool kGenerates = false;

  static Schema<VitOptions> schema();
  static bool reads(const std::string& model_type) { return model_type == "vit"; }
  static VitOptions from_config(HfConfig& config);
  static void to_config(const VitOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config);
  static HfNames names(const VitOptions&) {
    return {"vit.",
            {},
            {"pooler.*", "vit.pooler.*", "*mask_token"},
            {"classifier.*"},
            nullptr,
            {.name = &vit_module_name, .later = {{"mlp", "layernorm_after"}}}};
  }

  Vit(const VitOptions& options, const ModelContext& context)
      : num_heads_(options.num_heads),
        attention_dropout_(options.attention_dropout.value_or(options.dropout)),
        task_(classifier_task(options.problem_type, context.data)) {
    const DataShape& data = context.data;
    want_images(kName, data);
    const bool known = !data.input.empty();
    if (known && data.input[1] != data.input[2]) {
      throw Error(ExitCode::kRecipe,
                  text("the model 'vit' requires square images, not {}", to_string(data.input)),
                  "add a transform that crops or resizes them");
    }
    const int64_t side =
        equal_size({kName, "image_size", options.image_size, known ? data.input[1] : 0});
    const int64_t channels =
        equal_size({kName, "channels", options.channels, known ? data.input[0] : 0});
    const int64_t classes =
        equal_size({kName, "num_classes", options.num_classes, output_count(data)});
    if (side % options.patch_size != 0) {
      throw Error(ExitCode::kRecipe,
                  text("an image's side of {} is not a multiple of 'patch_size' {}", side,
                       options.patch_size),
                  "choose another 'patch_size', or resize the images");
    }
    const int64_t row = side / options.patch_size;
    image_ = {channels, side, side};
    vit_ = net_->register_module(
        "vit", std::make_shared<VitEncoder>(channels, row * row, options, context.tensor));
    classifier_ = vit_linear(*net_, "classifier", options.hidden_size, classes);
    for (const auto& module : net_->modules(false)) {
      auto* linear = module->as<torch::nn::Linear>();
      if (!linear) continue;
      torch::nn::init::normal_(linear->weight, 0.0, kVitWeightDeviation);
      if (linear->bias.defined()) torch::nn::init::zeros_(linear->bias);
    }
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    return classifier_->forward(vit_->forward(inputs, dividing(context_)));
  }
  std::vector<Block*> chain() override { return vit_->chain(); }
  TensorPlan tensor_plan(int64_t ranks) const override;
  DividedVocabulary vocabulary() const override { return {}; }
  void divide_sequences(ContextRanksPtr ranks) override {
    check_divides_sequences(*ranks, num_heads_, num_heads_, {.dropout = attention_dropout_});
    context_ = std::move(ranks);
  }
  const ContextRanks* context_ranks() const override { return context_.get(); }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return task_; }
  void validate_input(const DataShape& data) const override {
    check_one_shape(kName, image_, data);
  }

 private:
  std::shared_ptr<VitPart> net_ = std::make_shared<VitPart>();
  std::shared_ptr<VitEncoder> vit_;
  AdaptedLinear classifier_{nullptr};
  Shape image_;
  ContextRanksPtr context_;
  int64_t num_heads_;
  double attention_dropout_;
  const char* task_;
};

/// Embeddings and the classifier are whole.
TensorPlan Vit::tensor_plan(int64_t ranks) const {
  using enum TensorStyle;
  check_divides("num_heads", num_heads_, ranks);
  return {{"vit.encoder.layer.*.attention.attention.query", kColwise},
          {"vit.encoder.layer.*.attention.attention.key", kColwise},
          {"vit.encoder.layer.*.attention.attention.value", kColwise},
          {"vit.encoder.layer.*.attention.output.dense", kRowwise},
          {"vit.encoder.layer.*.intermediate.dense", kColwise},
          {"vit.encoder.layer.*.output.dense", kRowwise}};
}

Schema<VitOptions> Vit::schema() {
  const auto count = at_least<int64_t>(1);
  const auto chance = within(0.0, 1.0);
  auto sizes =
      Schema<VitOptions>()
          .field("image_size", &VitOptions::image_size, "Rows and columns of an image.",
                 if_given<Auto>(count))
          .on_resume(Change::kImpossible)
          .renamed_from("side")
          .hint_for({"img_size", "input_size"})
          .field("channels", &VitOptions::channels, "Channels of an image.", if_given<Auto>(count))
          .on_resume(Change::kImpossible)
          .hint_for({"num_channels", "in_channels", "in_chans"});
  sizes = with_num_classes(std::move(sizes), "Number of classes, or of values to predict.", 1)
              .field("patch_size", &VitOptions::patch_size, "Rows and columns of a patch.", count)
              .on_resume(Change::kImpossible)
              .renamed_from("patch");
  sizes = with_sizes(with_blocks(std::move(sizes)),
                     "Features inside a block's MLP; auto: four times the hidden size.")
              .field("activation", &VitOptions::activation, "Within the MLP.")
              .on_resume(Change::kImpossible);
  auto kinds = with_norm_eps(std::move(sizes), "Added to a norm's variance.")
                   .field("attention_bias", &VitOptions::attention_bias,
                          "Whether queries, keys and values have a bias.")
                   .on_resume(Change::kImpossible);
  return with_weights(
      with_problem_type(std::move(kinds))
          .field("dropout", &VitOptions::dropout,
                 "Dropout of embeddings, attention weights and block outputs.", chance)
          .field("attention_dropout", &VitOptions::attention_dropout,
                 "Dropout of attention weights; auto: dropout.", if_given<Auto>(chance))
          .check([](const VitOptions& options, const Node& node, Reading& reading) {
            check_multiple({"hidden_size", options.hidden_size}, {"num_heads", options.num_heads},
                           node, reading);
          }));
}

VitOptions Vit::from_config(HfConfig& config) {
  // Of the pooler and of masked images, which this model does not have.
  config.ignore({"pooler_output_size", "pooler_act", "encoder_stride"});
  VitOptions options;
  options.image_size = {config.integer("image_size", 224)};
  options.channels = {config.integer("num_channels", 3)};
  options.patch_size = config.integer("patch_size", 16);
  read_hf_sizes(config, {}, options);
  options.attention_bias = config.flag("qkv_bias", true);
  options.dropout = config.number("hidden_dropout_prob", 0.0);
  options.attention_dropout = {config.number("attention_probs_dropout_prob", 0.0)};
  if (config.architecture() == "ViTForImageClassification")
    options.num_classes = {label_count(config)};
  options.problem_type = problem_type_in(config);
  return options;
}

void Vit::to_config(const VitOptions& options, const WeightShapes& shapes, nlohmann::json& config) {
  const Shape& projection = shapes.at("vit.embeddings.patch_embeddings.projection.weight");
  const int64_t patches = shapes.at("vit.embeddings.position_embeddings").at(1) - 1;
  const auto row = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(patches))));
  config["model_type"] = "vit";
  config["architectures"] = {"ViTForImageClassification"};
  config["image_size"] = row * options.patch_size;
  config["num_channels"] = projection.at(1);
  config["patch_size"] = options.patch_size;
  write_hf_sizes(options, options.intermediate_size.value_or(4 * options.hidden_size), {}, config);
  config["qkv_bias"] = options.attention_bias;
  config["hidden_dropout_prob"] = options.dropout;
  config["attention_probs_dropout_prob"] = options.attention_dropout.value_or(options.dropout);
  write_labels(shapes.at("classifier.weight").at(0), config);
}

const RegisterPretrained<Vit> vit;

}  // namespace
}  // namespace accel
