// Residual networks for images, with torchvision's layer order, names and initialization, from and
// to folders of Hugging Face's ResNet.
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "core/api/block.h"
#include "core/api/model.h"
#include "core/base/text.h"
#include "kernels/max_pool.h"
#include "models/hf/register_pretrained.h"
#include "models/hf/resnet_folder.h"
#include "models/layers/activation_checkpoint.h"
#include "models/layers/batch_norm.h"
#include "models/layers/sizes.h"

namespace accel {
namespace {

/// Images with sides up to this get a stem without downsampling.
constexpr int64_t kLargestCifarSide = 64;

torch::nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

/// May modify `x` in place.
at::Tensor activated(at::Tensor x, HfActivation activation) {
  return activation == HfActivation::kRelu ? x.relu_() : activate(activation, x);
}

/// Projects the input of a block to the shape of its output.
class ResNetShortcut final : public torch::nn::Module {
 public:
  ResNetShortcut(int64_t in, int64_t out, int64_t stride)
      : conv_(register_module("0", convolution(in, out, 1, stride))),
        norm_(register_module("1", RankBatchNorm2d(out))) {}

  at::Tensor forward(const at::Tensor& x) { return norm_->forward(conv_->forward(x)); }

 private:
  torch::nn::Conv2d conv_;
  RankBatchNorm2d norm_;
};

struct ResNetBlockShape {
  bool bottleneck;
  int64_t in;      ///< input channels
  int64_t width;   ///< of the convolutions except a bottleneck's last
  int64_t stride;  ///< of the first 3x3 convolution, or of the 1x1 convolution before it
  bool early_stride;
  HfActivation activation;  ///< of the block's output

  int64_t out() const { return bottleneck ? width * kBottleneckExpansion : width; }
};

class ResNetBlock final : public torch::nn::Module, public Block {
 public:
  explicit ResNetBlock(const ResNetBlockShape& shape) : activation_(shape.activation) {
    // Constructed before the convolutions and registered after them: torchvision's order.
    if (shape.stride != 1 || shape.in != shape.out()) {
      shortcut_ = std::make_shared<ResNetShortcut>(shape.in, shape.out(), shape.stride);
    }
    if (shape.bottleneck) {
      const int64_t first = shape.early_stride ? shape.stride : 1;
      add(convolution(shape.in, shape.width, 1, first));
      add(convolution(shape.width, shape.width, 3, shape.stride / first));
      add(convolution(shape.width, shape.out(), 1, 1));
    } else {
      add(convolution(shape.in, shape.width, 3, shape.stride));
      add(convolution(shape.width, shape.width, 3, 1));
    }
    if (shortcut_) register_module("downsample", shortcut_);
  }

  at::Tensor forward(const at::Tensor& inputs) {
    at::Tensor x = inputs;
    for (size_t i = 0; i < convs_.size(); ++i) {
      x = norms_[i]->forward(convs_[i]->forward(x));
      if (i + 1 < convs_.size()) x = x.relu_();
    }
    return activated(x.add_(shortcut_ ? shortcut_->forward(inputs) : inputs), activation_);
  }

  RankBatchNorm2d last_norm() { return norms_.back(); }

 private:
  void add(torch::nn::Conv2d conv) {
    const std::string number = std::to_string(convs_.size() + 1);
    const int64_t channels = conv->options.out_channels();
    convs_.push_back(register_module("conv" + number, std::move(conv)));
    norms_.push_back(register_module("bn" + number, RankBatchNorm2d(channels)));
  }

  HfActivation activation_;
  std::vector<torch::nn::Conv2d> convs_;
  std::vector<RankBatchNorm2d> norms_;
  std::shared_ptr<ResNetShortcut> shortcut_;
};

struct ResNetSizes {
  int64_t channels;
  int64_t classes;
  bool cifar_stem;
};

class ResNetNet final : public torch::nn::Module {
 public:
  ResNetNet(const ResNetSizes& sizes, const ResNetOptions& options)
      : cifar_stem_(sizes.cifar_stem), activation_(options.activation) {
    const ResNetLayout& layout = resnet_layout(options.depth);
    int64_t channels = options.embedding_size;
    conv1_ = register_module(
        "conv1", cifar_stem_ ? convolution(sizes.channels, channels, 3, 1)
                             : convolution(sizes.channels, channels, kImageNetKernel, 2));
    bn1_ = register_module("bn1", RankBatchNorm2d(channels));
    for (size_t stage = 0; stage < layout.blocks.size(); ++stage) {
      torch::nn::ModuleList blocks;
      for (int64_t i = 0; i < layout.blocks[stage]; ++i) {
        const ResNetBlockShape shape = {layout.bottleneck,
                                        channels,
                                        options.embedding_size << stage,
                                        stage > 0 && i == 0 ? 2 : 1,
                                        options.early_stride,
                                        options.activation};
        blocks_.push_back(std::make_shared<ResNetBlock>(shape));
        blocks->push_back(blocks_.back());
        channels = shape.out();
      }
      register_module("layer" + std::to_string(stage + 1), blocks);
    }
    fc_ = register_module("fc", torch::nn::Linear(channels, sizes.classes));
    initialise(options.zero_init_residual);
  }

  at::Tensor forward(const at::Tensor& inputs) {
    at::Tensor x = activated(bn1_->forward(conv1_->forward(inputs)), activation_);
    if (!cifar_stem_) x = max_pool(x, {3, 2, 1});
    for (const auto& block : blocks_) x = run_block(*block, x);
    return fc_->forward(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  void initialise(bool zero_residual) {
    for (const auto& module : modules(false)) {
      if (auto* conv = module->as<torch::nn::Conv2d>()) {
        torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
      }
    }
    if (!zero_residual) return;
    for (const auto& block : blocks_) torch::nn::init::zeros_(block->last_norm()->weight);
  }

  bool cifar_stem_;
  HfActivation activation_;
  torch::nn::Conv2d conv1_{nullptr};
  RankBatchNorm2d bn1_{nullptr};
  std::vector<std::shared_ptr<ResNetBlock>> blocks_;
  torch::nn::Linear fc_{nullptr};
};

class ResNet final : public Model {
 public:
  static constexpr auto kName = "resnet";
  static constexpr const char* kHintFor[] = {"resnet18", "resnet34", "resnet50", "resnet101",
                                             "resnet152"};
  static constexpr auto kSummary = "A residual network of 18 to 152 layers for images.";
  static constexpr bool kGenerates = false;

  static Schema<ResNetOptions> schema();
  static bool reads(const std::string& model_type) {
    return model_type == kResNetType || model_type == kSmallImageResNetType;
  }
  static ResNetOptions from_config(HfConfig& config) { return resnet_options_in(config); }
  static void to_config(const ResNetOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config) {
    write_resnet_config(options, shapes, config);
  }
  static PythonFiles python_files(const nlohmann::json& config) {
    return resnet_python_files(config);
  }
  static HfNames names(const ResNetOptions&) {
    // The built-in names are torchvision's.
    return {
        "resnet.",
        {},
        {"classifier.*"},
        {"classifier.*"},
        &stored_resnet_name,
        {.name = &stored_resnet_name, .later = {{"layer", "shortcut"}}, .from_folders_only = true}};
  }

  ResNet(const ResNetOptions& options, const ModelContext& context) {
    const DataShape& data = context.data;
    want_images(kName, data);
    const int64_t channels = data.input.empty() ? 0 : data.input[0];
    ResNetSizes sizes = {};
    sizes.channels = equal_size({kName, "channels", options.channels, channels});
    sizes.classes = equal_size({kName, "num_classes", options.num_classes, output_count(data)});
    sizes.cifar_stem = cifar_stem(options.stem, data);
    net_ = std::make_shared<ResNetNet>(sizes, options);
    task_ = classifier_task(options.problem_type, data);
  }

  at::Tensor forward(const at::Tensor& inputs) override { return net_->forward(inputs); }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return task_; }

 private:
  static bool cifar_stem(ResNetStem stem, const DataShape& data) {
    if (stem != ResNetStem::kAuto) return stem == ResNetStem::kCifar;
    const Shape image = equal_shape(kName, "stem", {}, data.input);
    return std::max(image[1], image[2]) <= kLargestCifarSide;
  }

  std::shared_ptr<ResNetNet> net_;
  const char* task_;
};

Schema<ResNetOptions> ResNet::schema() {
  std::vector<int64_t> depths;
  for (const ResNetLayout& layout : resnet_layouts()) depths.push_back(layout.depth);
  auto sizes =
      Schema<ResNetOptions>()
          .field("depth", &ResNetOptions::depth,
                 "Layers: 18 and 34 are of basic blocks, the others of bottlenecks.",
                 one_of<int64_t>(depths))
          .on_resume(Change::kImpossible)
          .field("stem", &ResNetOptions::stem,
                 "First layers: cifar keeps the image's size, imagenet quarters it; auto is cifar "
                 "up to 64 pixels.")
          .on_resume(Change::kImpossible)
          .field("embedding_size", &ResNetOptions::embedding_size,
                 "Channels of the first stage; each next has twice.", at_least<int64_t>(1))
          .on_resume(Change::kImpossible)
          .renamed_from("width")
          .hint_for({"base_width", "inplanes"})
          .field("channels", &ResNetOptions::channels, "Channels of an image.",
                 if_given<Auto>(at_least<int64_t>(1)))
          .on_resume(Change::kImpossible)
          .field("num_classes", &ResNetOptions::num_classes,
                 "Number of classes, or of values to predict.",
                 if_given<Auto>(at_least<int64_t>(1)))
          .on_resume(Change::kImpossible)
          .renamed_from("classes")
          .hint_for({"num_labels", "n_classes", "nb_classes"})
          .field("early_stride", &ResNetOptions::early_stride,
                 "A bottleneck that halves the image does so in its first convolution rather than "
                 "in its 3x3.")
          .on_resume(Change::kImpossible)
          .field("activation", &ResNetOptions::activation,
                 "After the stem and each block; within a block it is ReLU.")
          .on_resume(Change::kImpossible);
  return with_weights(
      with_problem_type(std::move(sizes))
          .field("zero_init_residual", &ResNetOptions::zero_init_residual,
                 "Start every block as the identity.")
          .check([](const ResNetOptions& options, const Node& node, Reading& reading) {
            if (!options.early_stride || resnet_layout(options.depth).bottleneck) return;
            reading.problems.error(
                node.where,
                text("'early_stride' requires bottlenecks, which a network of {} layers lacks",
                     options.depth),
                "leave it out, or set 'depth: 50'");
          }));
}

const RegisterPretrained<ResNet> resnet;

}  // namespace
}  // namespace accel
