// Residual networks' options, their layouts by depth, and how they are read from and written to
// folders of Hugging Face's ResNet.
#pragma once

#include <string>
#include <vector>

#include "models/activations.h"
#include "models/hf_family.h"

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
  int64_t width = 64;
  Auto<int64_t> channels;
  Auto<int64_t> classes;
  bool early_stride = false;
  HfActivation activation = HfActivation::kRelu;
  bool zero_init_residual = false;
  FilePath weights;
};

constexpr int64_t kImageNetKernel = 7;
/// How much wider a bottleneck's last convolution is than its first.
constexpr int64_t kBottleneckExpansion = 4;

struct ResNetLayout {
  int64_t depth;
  bool bottleneck;
  std::vector<int64_t> blocks;  ///< in each of the four stages

  /// Channels that a stage gives, for `width` of the first.
  int64_t channels(size_t stage, int64_t width) const {
    return (width << stage) * (bottleneck ? kBottleneckExpansion : 1);
  }
};

/// Of all depths that there are.
const std::vector<ResNetLayout>& resnet_layouts();
/// Of one of them.
const ResNetLayout& resnet_layout(int64_t depth);

/// Problems are left in the config.
ResNetOptions resnet_options_in(HfConfig& config);
/// `shapes` have the model's own names. Throws Error (kRecipe) for a network that folders cannot
/// hold.
void write_resnet_config(const ResNetOptions& options, const WeightShapes& shapes,
                         nlohmann::json& config);
/// "layer1.0.conv2.weight" is "resnet.encoder.stages.0.layers.0.layer.1.convolution.weight".
std::string stored_resnet_name(const std::string& name);

}  // namespace accel
