// Image processors of transformers as options of a recipe.
#include "runner/draft/image_processor.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "core/recipe/number_text.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::image_processor_test {
namespace {

constexpr auto kFromFile =
    "sizes and normalization are those of the model's preprocessor_config.json";

class ImageProcessorTest : public testing::Test {
 protected:
  ImageProcessor read(const std::string& values) {
    folder_.write("preprocessor_config.json", values);
    return read_image_processor(folder_.path(), nlohmann::json::object());
  }
  /// "size interpolation crop mean std", or the error.
  std::string processor(const std::string& values) {
    std::string out;
    const std::string error = complaint([&] {
      const ImageProcessor found = read(values);
      const auto whole = [](int64_t each) { return std::to_string(each); };
      out = "[" + joined(found.size, ",", whole) + "] " + found.interpolation + " [" +
            joined(found.crop, ",", whole) + "] [" + joined(found.mean, ",", show_number) + "] [" +
            joined(found.std, ",", show_number) + "]";
    });
    return error.empty() ? out : error;
  }

  TempFolder folder_;
};

TEST_F(ImageProcessorTest, ReadsSizesCropsAndNormalization) {
  const std::pair<const char*, const char*> cases[] = {
      // google/vit-base-patch16-224 and its older form
      {R"({"image_processor_type": "ViTImageProcessor", "size": {"height": 224, "width": 224},
           "resample": 2, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]})",
       "[224,224] bilinear [] [0.5,0.5,0.5] [0.5,0.5,0.5]"},
      {R"({"size": 224, "image_mean": [0.5], "image_std": [0.25]})",
       "[224,224] bilinear [] [0.5] [0.25]"},
      // microsoft/resnet-50, and a larger side, which is not cropped
      {R"({"feature_extractor_type": "ConvNextFeatureExtractor", "crop_pct": 0.875, "resample": 3,
           "size": {"shortest_edge": 224}, "image_mean": [0.4, 0.4, 0.4], "image_std": [0.2, 0.2, 0.2]})",
       "[256] bicubic [224,224] [0.4,0.4,0.4] [0.2,0.2,0.2]"},
      {R"({"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 384},
           "do_normalize": false})",
       "[384,384] bicubic [] [] []"},
      // CLIP's
      {R"({"do_center_crop": true, "size": {"shortest_edge": 40}, "resample": 0,
           "crop_size": {"height": 32, "width": 30}, "image_mean": [0], "image_std": [1]})",
       "[40] nearest [32,30] [0] [1]"},
      {R"({"do_resize": false, "size": 9, "image_mean": [0], "image_std": [1]})",
       "[] bilinear [] [0] [1]"},
      // bytes that are not divided by 255
      {R"({"do_resize": false, "do_rescale": false, "image_mean": [127.5], "image_std": [51]})",
       "[] bilinear [] [0.5] [0.2]"},
      {R"({"do_resize": false, "rescale_factor": 0.00784313725490196, "do_normalize": false})",
       "[] bilinear [] [0] [0.5]"},
  };
  for (const auto& [values, wanted] : cases) EXPECT_EQ(processor(values), wanted) << values;
}

TEST_F(ImageProcessorTest, KeysThatTheFileLeavesOutAreThoseOfTheClass) {
  const std::string clip = "[0.48145466,0.4578275,0.40821073] [0.26862954,0.26130258,0.27577711]";
  const std::pair<const char*, std::string> cases[] = {
      {R"({})", "[224,224] bilinear [] [0.5] [0.5]"},
      {R"({"image_processor_type": "ViTImageProcessorFast", "do_center_crop": true, "size": 40})",
       "[40,40] bilinear [224,224] [0.5] [0.5]"},
      // facebook/deit-base-distilled-patch16-224: 256 is no shorter side
      {R"({"feature_extractor_type": "DeiTFeatureExtractor", "size": 256, "crop_size": 224})",
       "[256,256] bicubic [224,224] [0.5] [0.5]"},
      {R"({"image_processor_type": "DeiTImageProcessor", "do_center_crop": null})",
       "[256,256] bicubic [] [0.5] [0.5]"},
      {R"({"image_processor_type": "BeitImageProcessor"})", "[224,224] bicubic [] [0.5] [0.5]"},
      {R"({"image_processor_type": "SiglipImageProcessor", "size": 36})",
       "[36] bicubic [] [0.5] [0.5]"},
      {R"({"image_processor_type": "CLIPImageProcessor"})", "[224] bicubic [224,224] " + clip},
      {R"({"image_processor_type": "BitImageProcessor", "size": 40, "do_center_crop": false})",
       "[40] bicubic [] " + clip},
      {R"({"image_processor_type": "ConvNextImageProcessor"})", "[384,384] bicubic [] [0.5] [0.5]"},
      {R"({"image_processor_type": "MobileNetV2ImageProcessor"})",
       "[256] bilinear [224,224] [0.5] [0.5]"},
  };
  for (const auto& [values, wanted] : cases) EXPECT_EQ(processor(values), wanted) << values;
}

TEST_F(ImageProcessorTest, AFileWithoutAClassHasThatOfTheModel) {
  folder_.write("preprocessor_config.json", "{}");
  const auto crop = [&](const char* model) {
    return read_image_processor(folder_.path(), {{"model_type", model}}).crop;
  };
  EXPECT_EQ(crop("vit"), std::vector<int64_t>{});
  EXPECT_EQ(crop("clip"), (std::vector<int64_t>{224, 224}));
  folder_.write("preprocessor_config.json", R"({"size": 32})");
  EXPECT_EQ(crop("resnet"), (std::vector<int64_t>{32, 32}));
}

TEST_F(ImageProcessorTest, ReadsTheOneInAProcessorConfig) {
  folder_.write(
      "processor_config.json",
      R"({"image_processor": {"size": 40, "image_processor_type": "CLIPImageProcessor"}})");
  const ImageProcessor found = read(R"({"size": 30})");
  EXPECT_EQ(found.size, std::vector<int64_t>{40});
  EXPECT_EQ(found.notes,
            std::vector<std::string>{
                "sizes and normalization are those of the model's processor_config.json"});
  folder_.write("processor_config.json", R"({"processor_class": "CLIPProcessor"})");
  EXPECT_EQ(read(R"({"size": 30})").size, (std::vector<int64_t>{30, 30}));
}

TEST_F(ImageProcessorTest, SaysWhereValuesAreFromAndWhatIsNotDone) {
  EXPECT_EQ(
      read(R"({"resample": 1, "do_pad": true})").notes,
      (std::vector<std::string>{
          "preprocessor_config.json: 'resample' is 1 (Lanczos), which is not available: "
          "bicubic is used",
          kFromFile, "preprocessor_config.json: 'do_pad' has no counterpart, and is left out"}));
  EXPECT_EQ(read(R"({"image_processor_type": "LevitImageProcessor"})").notes,
            (std::vector<std::string>{"preprocessor_config.json: 'LevitImageProcessor' is not "
                                      "available, and is read as ViTImageProcessor",
                                      kFromFile}));
  const TempFolder empty;
  const auto guess = read_image_processor(empty.path(), {{"image_size", 32}});
  EXPECT_EQ(guess.size, (std::vector<int64_t>{32, 32}));
  EXPECT_EQ(guess.notes,
            std::vector<std::string>{"the model's folder has no preprocessor_config.json: 32 x 32 "
                                     "pixels, mean 0.5 and deviation 0.5 are a guess"});
}

TEST_F(ImageProcessorTest, RefusesValuesOfAnotherType) {
  const std::string file = "'" + folder_.path("preprocessor_config.json") + "' has ";
  EXPECT_EQ(processor(R"({"size": {"longest_edge": 9}})"),
            file + R"({"longest_edge":9} for 'size', and {height, width} or {shortest_edge} is )"
                   "wanted");
  EXPECT_EQ(processor(R"({"size": 0})"), file + "0 for 'size', and sizes of at least 1 is wanted");
  EXPECT_EQ(processor(R"({"do_resize": 1})"),
            file + "1 for 'do_resize', and true or false is wanted");
  EXPECT_EQ(processor(R"({"image_mean": ["a"]})"),
            file + R"(["a"] for 'image_mean', and a list of numbers is wanted)");
  EXPECT_EQ(processor(R"({"resample": "cubic"})"),
            file + R"("cubic" for 'resample', and a number is wanted)");
}

}  // namespace
}  // namespace accel::image_processor_test
