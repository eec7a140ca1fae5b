// Options of residual networks, layouts by depth, and conversion from and to folders of Hugging
// Face's ResNet.
#pragma once

#include <string>
#include <vector>

#include "models/hf/hf_family.h"
#include "models/hf/problem_type.h"
#include "models/layers/activations.h"

namespace accel {

enum class ResNetStem { kAuto, kCifar, kImageNet };

template <>
struct EnumNames<ResNetStem> {
  static constexpr std::pair<ResNetStem, const char*> kValues[] = {
      {ResNetStem::kAuto, "auto"},
      {ResNetStem::kCifar, "cifar"},
      {ResNetStem::kImageNet, "imagenet"}};
};

struct ResNetOptions {
  int64_t depth = 18;
  ResNetStem stem = ResNetStem::kAuto;
  int64_t embedding_size = 64;
  Auto<int64_t> channels;
  Auto<int64_t> num_classes;
  bool early_stride = false;
  HfActivation activation = HfActivation::kRelu;
  bool zero_init_residual = false;
  Auto<ProblemType> problem_type;
  FilePath weights;
};

constexpr int64_t kImageNetKernel = 7;
/// Output channels of a bottleneck relative to its inner width.
constexpr int64_t kBottleneckExpansion = 4;

struct ResNetLayout {
  int64_t depth;
  bool bottleneck;
  std::vector<int64_t> blocks;  ///< per stage, four stages

  /// Output channels of a stage; `width` is that of the first.
  int64_t channels(size_t stage, int64_t width) const {
    return (width << stage) * (bottleneck ? kBottleneckExpansion : 1);
  }
};

/// All supported depths.
const std::vector<ResNetLayout>& resnet_layouts();
/// The layout of one depth.
const ResNetLayout& resnet_layout(int64_t depth);

/// `model_type` of folders of transformers' ResNet, which has the stem `imagenet`, and of those
/// with the stem `cifar`, whose model is a Python file in the folder.
constexpr auto kResNetType = "resnet";
constexpr auto kSmallImageResNetType = "small_image_resnet";

/// Collects problems in the config.
ResNetOptions resnet_options_in(HfConfig& config);
/// `shapes` by the model's names.
void write_resnet_config(const ResNetOptions& options, const WeightShapes& shapes,
                         nlohmann::json& config);
/// The model of a config with the stem `cifar` for transformers; none for other configs.
PythonFiles resnet_python_files(const nlohmann::json& config);
/// "resnet.encoder.stages.0.layers.0.layer.1.convolution.weight" for "layer1.0.conv2.weight".
std::string stored_resnet_name(const std::string& name);

}  // namespace accel
