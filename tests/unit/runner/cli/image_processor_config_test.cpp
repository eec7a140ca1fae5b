// The image processor of an exported model, from the data of its recipe.
#include "runner/cli/export/image_processor_config.h"

#include <gtest/gtest.h>

#include "core/recipe/parse.h"

namespace accel::image_processor_config_test {
namespace {

ImageProcessorConfig processor(const std::string& data) {
  return image_processor_config(parse_recipe("data.yaml", data));
}

TEST(ImageProcessorConfigTest, HasTheTransformsOfAnEvaluation) {
  const auto vit = processor(
      "train: {type: image_folder, size: [16, 24], interpolation: bicubic}\n"
      "transform:\n  - {type: random_flip}\n  - {type: normalize, mean: [0.5], std: [0.25]}\n"
      "  - {type: random_erase, p: 0.2}\n");
  EXPECT_EQ(vit.lack, "");
  const nlohmann::json wanted = {{"image_processor_type", "ViTImageProcessor"},
                                 {"do_convert_rgb", true},
                                 {"do_resize", true},
                                 {"size", {{"height", 16}, {"width", 24}}},
                                 {"resample", 3},
                                 {"do_center_crop", false},
                                 {"do_rescale", true},
                                 {"rescale_factor", 1 / 255.0},
                                 {"do_normalize", true},
                                 {"image_mean", {0.5, 0.5, 0.5}},
                                 {"image_std", {0.25, 0.25, 0.25}}};
  EXPECT_EQ(vit.config, wanted);
  const auto cropped = processor(
      "train: [{type: image_folder, size: [99, 99]}]\n"
      "eval: {type: image_folder, size: [], grayscale: false}\n"
      "transform: [{type: resize, size: [32], interpolation: nearest},\n"
      "  {type: random_crop, size: [28], padding: 2}]\n");
  EXPECT_EQ(cropped.config.at("image_processor_type"), "CLIPImageProcessor");
  EXPECT_EQ(cropped.config.at("size"), nlohmann::json({{"shortest_edge", 32}}));
  EXPECT_EQ(cropped.config.at("crop_size"), nlohmann::json({{"height", 28}, {"width", 28}}));
  EXPECT_EQ(cropped.config.at("resample"), 0);
  EXPECT_EQ(cropped.config.at("do_normalize"), false);
  EXPECT_EQ(processor("train: {type: cifar10, path: x}\n").config.at("do_resize"), false);
}

TEST(ImageProcessorConfigTest, SaysWhatImageProcessorsCannotDo) {
  const std::pair<const char*, const char*> cases[] = {
      {"transform: []\n", "the recipe names no dataset"},
      {"train: {grayscale: true}\n",
       "the images are grayscale, and image processors make three channels of them"},
      {"train: {exif_orientation: true}\n",
       "'exif_orientation' turns images, which image processors do not"},
      {"train: {}\ntransform: [{type: grayscale}]\n",
       "the transform 'grayscale' is none of image processors"},
      {"train: {size: [8]}\ntransform: [{type: resize, size: [9]}]\n", "images are resized twice"},
      {"train: {}\ntransform: [{type: center_crop, size: [8]}, {type: resize, size: [9]}]\n",
       "images are resized after another transform"},
      {"train: {}\ntransform: [{type: center_crop, size: [8]}, {type: center_crop, size: [4]}]\n",
       "images are cropped twice"},
      {"train: {}\ntransform: [{type: normalize, mean: [0], std: [1]},\n"
       "  {type: center_crop, size: [8]}]\n",
       "images are cropped after they are normalized"},
      {"train: {}\ntransform: [{type: normalize, mean: [0], std: [1]},\n"
       "  {type: normalize, mean: [0], std: [1]}]\n",
       "images are normalized twice"},
  };
  for (const auto& [data, lack] : cases) {
    EXPECT_EQ(processor(data).lack,
              "the folder has no preprocessor_config.json: " + std::string(lack));
    EXPECT_TRUE(processor(data).config.is_null());
  }
}

}  // namespace
}  // namespace accel::image_processor_config_test
