// What of Hugging Face's ResNet folders our network is, and what it is not.
#include "models/hf/resnet_folder.h"

#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <nlohmann/json.hpp>

#include "core/api/model.h"
#include "core/base/error.h"
#include "tests/unit/build_component.h"

namespace accel::resnet_folder_test {
namespace {

using Json = nlohmann::json;

HfConfig config_of(const Json& values) {
  return {values.dump(), "config.json"};
}

std::string problems_of(const Json& values) {
  HfConfig config = config_of(values);
  resnet_options_in(config);
  std::string out;
  for (const std::string& problem : config.problems()) out += problem + "\n";
  return out;
}

TEST(ResNetFolderTest, EveryDepthIsKnownByItsLayers) {
  for (const ResNetLayout& layout : resnet_layouts()) {
    const int64_t more = layout.bottleneck ? 4 : 1;
    HfConfig config = config_of({{"depths", layout.blocks},
                                 {"layer_type", layout.bottleneck ? "bottleneck" : "basic"},
                                 {"embedding_size", 3},
                                 {"hidden_sizes", {3 * more, 6 * more, 12 * more, 24 * more}},
                                 {"downsample_in_bottleneck", true},
                                 {"architectures", {"ResNetForImageClassification"}},
                                 {"id2label", {{"0", "a"}, {"1", "b"}, {"2", "c"}}}});
    const ResNetOptions options = resnet_options_in(config);
    EXPECT_TRUE(config.problems().empty()) << config.problems().front();
    EXPECT_EQ(options.depth, layout.depth);
    EXPECT_EQ(options.embedding_size, 3);
    EXPECT_EQ(options.early_stride, layout.bottleneck) << "basic blocks have nothing to choose";
    EXPECT_EQ(*options.num_classes, 3);
  }
}

TEST(ResNetFolderTest, AConfigThatSaysNothingIsTransformersOwn) {
  HfConfig config = config_of(Json::object());
  const ResNetOptions options = resnet_options_in(config);
  EXPECT_TRUE(config.problems().empty());
  EXPECT_EQ(options.depth, 50);
  EXPECT_EQ(options.embedding_size, 64);
  EXPECT_EQ(*options.channels, 3);
  EXPECT_FALSE(options.early_stride);
  EXPECT_EQ(options.stem, ResNetStem::kImageNet);
  EXPECT_FALSE(options.num_classes);
}

TEST(ResNetFolderTest, WhatNoModelIsForIsTold) {
  EXPECT_EQ(
      problems_of({{"depths", {1, 1, 2, 1}}, {"layer_type", "basic"}}),
      "'config.json' has [1,1,2,1] 'basic' layers, and there is a model for no such network\n");
  EXPECT_EQ(problems_of({{"hidden_sizes", {256, 512, 1024, 2000}}}),
            "'config.json' has [256,512,1024,2000] for 'hidden_sizes', which the model has as "
            "[256,512,1024,2048] for its 'embedding_size'\n");
  EXPECT_EQ(problems_of({{"downsample_in_first_stage", true}, {"depths", "many"}}),
            "'config.json' has true for 'downsample_in_first_stage', which this model does not do\n"
            "'config.json' has no list of whole numbers for 'depths'\n");
}

TEST(ResNetFolderTest, EveryPartHasTransformersName) {
  const std::pair<const char*, const char*> names[] = {
      {"conv1.weight", "resnet.embedder.embedder.convolution.weight"},
      {"bn1.running_mean", "resnet.embedder.embedder.normalization.running_mean"},
      {"layer1.0.conv1.weight", "resnet.encoder.stages.0.layers.0.layer.0.convolution.weight"},
      {"layer3.22.bn3.bias", "resnet.encoder.stages.2.layers.22.layer.2.normalization.bias"},
      {"layer4.0.downsample.0.weight",
       "resnet.encoder.stages.3.layers.0.shortcut.convolution.weight"},
      {"layer4.0.downsample.1.num_batches_tracked",
       "resnet.encoder.stages.3.layers.0.shortcut.normalization.num_batches_tracked"},
      {"fc.bias", "classifier.1.bias"}};
  for (const auto& [ours, theirs] : names) EXPECT_EQ(stored_resnet_name(ours), theirs);
}

WeightShapes shapes_of(const std::string& yaml) {
  ModelContext context;
  context.data.input = {2, 32, 32};
  context.data.classes = 5;
  WeightShapes shapes;
  const auto model = build<Model>(yaml, context);
  for (const auto& item : model->module().named_parameters()) {
    shapes[item.key()] = item.value().sizes().vec();
  }
  return shapes;
}

TEST(ResNetFolderTest, OptionsComeBackFromTheConfig) {
  ResNetOptions options;
  options.depth = 26;
  options.embedding_size = 2;
  options.early_stride = true;
  options.activation = HfActivation::kSilu;
  Json json = {{"id2label", {{"0", "cat"}}}};
  write_resnet_config(
      options, shapes_of("{type: resnet, depth: 26, embedding_size: 2, stem: imagenet}"), json);
  EXPECT_EQ(json["id2label"].size(), 5) << "one name was not enough";
  HfConfig config = config_of(json);
  const ResNetOptions again = resnet_options_in(config);
  EXPECT_TRUE(config.problems().empty());
  EXPECT_EQ(config.model_type(), "resnet");
  EXPECT_EQ(again.depth, 26);
  EXPECT_EQ(again.embedding_size, 2);
  EXPECT_EQ(*again.channels, 2);
  EXPECT_EQ(*again.num_classes, 5);
  EXPECT_TRUE(again.early_stride);
  EXPECT_EQ(again.activation, HfActivation::kSilu);
}

TEST(ResNetFolderTest, AStemForSmallImagesBringsItsCode) {
  Json json;
  write_resnet_config({}, shapes_of("{type: resnet, embedding_size: 2, stem: cifar}"), json);
  const std::string file = "modeling_small_image_resnet";
  const std::string name = "SmallImageResNetForImageClassification";
  EXPECT_EQ(json["model_type"], "small_image_resnet");
  EXPECT_EQ(json["architectures"], Json({name}));
  EXPECT_EQ(json["auto_map"]["AutoModelForImageClassification"], file + "." + name);
  const PythonFiles files = resnet_python_files(json);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files.begin()->first, file + ".py");
  for (const auto& [key, place] : json["auto_map"].items()) {
    const std::string text = "class " + place.get<std::string>().substr(file.size() + 1) + "(";
    EXPECT_NE(files.begin()->second.find(text), std::string::npos) << key;
  }
  HfConfig config = config_of(json);
  const ResNetOptions again = resnet_options_in(config);
  EXPECT_TRUE(config.problems().empty());
  EXPECT_EQ(again.stem, ResNetStem::kCifar);
  EXPECT_EQ(*again.num_classes, 5);
}

TEST(ResNetFolderTest, AStemOfTransformersNeedsNoCode) {
  Json json;
  write_resnet_config({}, shapes_of("{type: resnet, embedding_size: 2, stem: imagenet}"), json);
  EXPECT_FALSE(json.contains("auto_map"));
  EXPECT_TRUE(resnet_python_files(json).empty());
}

}  // namespace
}  // namespace accel::resnet_folder_test
