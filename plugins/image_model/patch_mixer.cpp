// A model of images: patches, which convolutions mix first in space and then across channels
// (ConvMixer, Trockman and Kolter, 2022), with group normalization and dropout.
//
// A model creates its modules in the constructor, from its options and the shape of the data, maps
// inputs to outputs, and names its default task. Images are [batch, channels, height, width]. The
// optimizer, checkpoints and the strategy of several ranks use module(); activation checkpointing
// uses its blocks.
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <memory>
#include <vector>

#include "core/api/block.h"
#include "core/api/model.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct PatchMixerOptions {
  int64_t hidden_size = 64;
  int64_t depth = 4;
  int64_t patch_size = 4;
  int64_t kernel_size = 5;
  double dropout = 0.0;
};

/// A depthwise convolution with a residual connection, then one over the channels of each pixel.
class PatchMixerBlock final : public torch::nn::Module, public Block {
 public:
  explicit PatchMixerBlock(const PatchMixerOptions& options) {
    const int64_t size = options.hidden_size;
    using torch::nn::Conv2dOptions;
    in_space_ = register_module(
        "in_space",
        torch::nn::Conv2d(
            Conv2dOptions(size, size, options.kernel_size).groups(size).padding(torch::kSame)));
    space_norm_ = register_module("space_norm", torch::nn::GroupNorm(1, size));
    across_channels_ =
        register_module("across_channels", torch::nn::Conv2d(Conv2dOptions(size, size, 1)));
    channel_norm_ = register_module("channel_norm", torch::nn::GroupNorm(1, size));
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor mixed = x.add(space_norm_(gelu_(in_space_(x))));
    return channel_norm_(gelu_(across_channels_(mixed)));
  }

 private:
  torch::nn::Conv2d in_space_{nullptr}, across_channels_{nullptr};
  torch::nn::GroupNorm space_norm_{nullptr}, channel_norm_{nullptr};
  torch::nn::GELU gelu_;
};

class PatchMixerLayers final : public torch::nn::Module {
 public:
  PatchMixerLayers(const PatchMixerOptions& options, int64_t channels, int64_t outputs) {
    const auto patches = torch::nn::Conv2dOptions(channels, options.hidden_size, options.patch_size)
                             .stride(options.patch_size);
    patches_ = register_module("patches", torch::nn::Conv2d(patches));
    torch::nn::ModuleList list;
    for (int64_t i = 0; i < options.depth; ++i) {
      blocks_.push_back(std::make_shared<PatchMixerBlock>(options));
      list->push_back(blocks_.back());
    }
    register_module("blocks", list);
    dropout_ = register_module("dropout", torch::nn::Dropout(options.dropout));
    head_ = register_module("head", torch::nn::Linear(options.hidden_size, outputs));
  }

  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = patches_(images);
    for (const auto& block : blocks_) x = run_block(*block, x);
    return head_(dropout_(x.mean({2, 3})));
  }

 private:
  torch::nn::Conv2d patches_{nullptr};
  std::vector<std::shared_ptr<PatchMixerBlock>> blocks_;
  torch::nn::Dropout dropout_{nullptr};
  torch::nn::Linear head_{nullptr};
};

class PatchMixer final : public Model {
 public:
  static constexpr auto kName = "example/patch_mixer";
  static constexpr auto kSummary = "Convolutions that mix patches of an image.";

  static Schema<PatchMixerOptions> schema() {
    return Schema<PatchMixerOptions>()
        .field("hidden_size", &PatchMixerOptions::hidden_size, "Channels of each patch.",
               at_least<int64_t>(1))
        .on_resume(Change::kImpossible)
        .field("depth", &PatchMixerOptions::depth, "Number of blocks.", at_least<int64_t>(1))
        .on_resume(Change::kImpossible)
        .field("patch_size", &PatchMixerOptions::patch_size, "Side of a patch in pixels.",
               at_least<int64_t>(1))
        .on_resume(Change::kImpossible)
        .field("kernel_size", &PatchMixerOptions::kernel_size,
               "Side of the convolutions in space, in patches.", at_least<int64_t>(1))
        .on_resume(Change::kImpossible)
        .field("dropout", &PatchMixerOptions::dropout,
               "Chance of dropping a feature before the head.", within(0.0, 1.0));
  }

  PatchMixer(const PatchMixerOptions& options, const ModelContext& context)
      : numeric_(context.data.classes == 0) {
    const DataShape& data = context.data;
    if (data.input.size() != 3 || data.input_type != DType::kF32) {
      throw Error(ExitCode::kRecipe, "'example/patch_mixer' wants images",
                  "choose a dataset of images, such as image_folder");
    }
    for (const size_t side : {1, 2}) {
      if (data.input[side] >= options.patch_size) continue;
      throw Error(ExitCode::kRecipe,
                  text("the images of {} x {} pixels are smaller than a patch of {}", data.input[1],
                       data.input[2], options.patch_size),
                  "lower 'patch_size'");
    }
    const int64_t outputs = numeric_ ? count_of(data.target) : data.classes;
    layers_ = std::make_shared<PatchMixerLayers>(options, data.input[0], outputs);
  }

  at::Tensor forward(const at::Tensor& inputs) override { return layers_->forward(inputs); }
  torch::nn::Module& module() override { return *layers_; }
  const char* default_task() const override { return numeric_ ? "regression" : "classification"; }

 private:
  std::shared_ptr<PatchMixerLayers> layers_;
  bool numeric_;
};

const Register<PatchMixer> patch_mixer;

}  // namespace
}  // namespace accel
