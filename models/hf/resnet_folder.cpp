#include "models/hf/resnet_folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr auto kClass = "ResNetForImageClassification";
constexpr auto kSmallImageClass = "SmallImageResNetForImageClassification";
constexpr auto kSmallImageConfigClass = "SmallImageResNetConfig";
constexpr auto kSmallImageModule = "modeling_small_image_resnet";

/// transformers' network with the stem of this one.
constexpr auto kSmallImageCode =
    R"py("""A ResNet for small images: the stem is a 3x3 convolution and keeps the image's size.

Load it with AutoModelForImageClassification.from_pretrained(FOLDER, trust_remote_code=True).
"""

from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification


class SmallImageResNetConfig(ResNetConfig):
    model_type = "small_image_resnet"


class SmallImageResNetForImageClassification(ResNetForImageClassification):
    config_class = SmallImageResNetConfig

    def __init__(self, config):
        super().__init__(config)
        stem = self.resnet.embedder
        stem.embedder.convolution = nn.Conv2d(
            config.num_channels, config.embedding_size, kernel_size=3, padding=1, bias=False
        )
        stem.pooler = nn.Identity()
        self.post_init()
)py";

/// Name of a block's layer in transformers: "layer.1.convolution" for "conv2".
std::string stored_block_part(const std::string& part) {
  const auto in_layer = [&](const char* kind, size_t digit) {
    const char number = static_cast<char>(part.at(digit) - 1);
    return "layer." + std::string(1, number) + kind + part.substr(digit + 1);
  };
  if (part.starts_with("conv")) return in_layer(".convolution", 4);
  if (part.starts_with("bn")) return in_layer(".normalization", 2);
  const bool norm = part.starts_with("downsample.1");
  return (norm ? "shortcut.normalization" : "shortcut.convolution") + part.substr(12);
}

/// A list of integers, or the fallback if missing.
std::vector<int64_t> resnet_sizes_in(HfConfig& config, const char* key,
                                     std::vector<int64_t> fallback) {
  if (!config.has(key)) return fallback;
  const nlohmann::json& list = config.values().at(key);
  const auto whole = [](const nlohmann::json& item) { return item.is_number_integer(); };
  if (list.is_array() && std::all_of(list.begin(), list.end(), whole)) return list;
  config.refuse(text("'{}' has no list of whole numbers for '{}'", config.path(), key));
  return fallback;
}

}  // namespace

const std::vector<ResNetLayout>& resnet_layouts() {
  static const std::vector<ResNetLayout> layouts = {
      {18, false, {2, 2, 2, 2}}, {26, true, {2, 2, 2, 2}},   {34, false, {3, 4, 6, 3}},
      {50, true, {3, 4, 6, 3}},  {101, true, {3, 4, 23, 3}}, {152, true, {3, 8, 36, 3}}};
  return layouts;
}

const ResNetLayout& resnet_layout(int64_t depth) {
  for (const ResNetLayout& layout : resnet_layouts()) {
    if (layout.depth == depth) return layout;
  }
  throw std::logic_error("a depth that the schema does not let in");
}

std::string stored_resnet_name(const std::string& name) {
  const size_t dot = name.find('.');
  const std::string rest = name.substr(dot);
  if (name.starts_with("fc.")) return "classifier.1" + rest;
  const std::string stem = "resnet.embedder.embedder.";
  if (name.starts_with("conv1.")) return stem + "convolution" + rest;
  if (name.starts_with("bn1.")) return stem + "normalization" + rest;
  const int64_t stage = std::stoll(name.substr(5, dot - 5));  // behind "layer"
  const size_t block = name.find('.', dot + 1);
  return "resnet.encoder.stages." + std::to_string(stage - 1) + ".layers" +
         name.substr(dot, block + 1 - dot) + stored_block_part(name.substr(block + 1));
}

ResNetOptions resnet_options_in(HfConfig& config) {
  config.want("downsample_in_first_stage", false, "this model does not do");
  config.ignore({"out_features", "out_indices", "stage_names"});  // of a backbone
  ResNetOptions options;
  const bool small = config.model_type() == kSmallImageResNetType;
  if (small) config.ignore({"auto_map"});
  options.stem = small ? ResNetStem::kCifar : ResNetStem::kImageNet;
  options.channels = {config.integer("num_channels", 3)};
  options.embedding_size = config.integer("embedding_size", 64);
  options.activation = activation_in(config, "hidden_act", HfActivation::kRelu);
  const std::string type = config.text("layer_type", "bottleneck");
  const std::vector<int64_t> depths = resnet_sizes_in(config, "depths", {3, 4, 6, 3});
  const std::vector<int64_t> widths =
      resnet_sizes_in(config, "hidden_sizes", {256, 512, 1024, 2048});
  const ResNetLayout* found = nullptr;
  for (const ResNetLayout& layout : resnet_layouts()) {
    if (layout.blocks == depths && type == (layout.bottleneck ? "bottleneck" : "basic")) {
      found = &layout;
    }
  }
  if (!found) {
    config.refuse(text("'{}' has {} '{}' layers, and there is a model for no such network",
                       config.path(), nlohmann::json(depths).dump(), type));
    return options;
  }
  std::vector<int64_t> wanted;
  for (size_t i = 0; i < depths.size(); ++i)
    wanted.push_back(found->channels(i, options.embedding_size));
  if (widths != wanted) {
    config.refuse(
        text("'{}' has {} for 'hidden_sizes', which the model has as {} for its 'embedding_size'",
             config.path(), nlohmann::json(widths).dump(), nlohmann::json(wanted).dump()));
  }
  options.depth = found->depth;
  options.early_stride = found->bottleneck && config.flag("downsample_in_bottleneck", false);
  if (config.architecture() == (small ? kSmallImageClass : kClass)) {
    options.num_classes = {label_count(config)};
  }
  options.problem_type = problem_type_in(config);
  return options;
}

void write_resnet_config(const ResNetOptions& options, const WeightShapes& shapes,
                         nlohmann::json& config) {
  const Shape& stem = shapes.at("conv1.weight");
  const bool small = stem.at(2) != kImageNetKernel;
  const ResNetLayout& layout = resnet_layout(options.depth);
  std::vector<int64_t> widths;
  for (size_t i = 0; i < layout.blocks.size(); ++i) {
    widths.push_back(layout.channels(i, options.embedding_size));
  }
  config["model_type"] = small ? kSmallImageResNetType : kResNetType;
  config["architectures"] = {small ? kSmallImageClass : kClass};
  if (small) {
    const std::string module = kSmallImageModule;
    config["auto_map"] = {{"AutoConfig", module + "." + kSmallImageConfigClass},
                          {"AutoModelForImageClassification", module + "." + kSmallImageClass}};
  }
  config["num_channels"] = stem.at(1);
  config["embedding_size"] = options.embedding_size;
  config["hidden_sizes"] = widths;
  config["depths"] = layout.blocks;
  config["layer_type"] = layout.bottleneck ? "bottleneck" : "basic";
  config["hidden_act"] = config_name(options.activation);
  config["downsample_in_first_stage"] = false;
  config["downsample_in_bottleneck"] = options.early_stride;
  write_labels(shapes.at("fc.weight").at(0), config);
}

PythonFiles resnet_python_files(const nlohmann::json& config) {
  if (config.at("model_type") != kSmallImageResNetType) return {};
  return {{std::string(kSmallImageModule) + ".py", kSmallImageCode}};
}

}  // namespace accel
