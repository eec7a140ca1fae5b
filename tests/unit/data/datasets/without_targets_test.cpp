// Datasets of which nobody asks the targets, as when a model is used: they need none.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/api/dataset.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::without_targets_test {
namespace {

constexpr DatasetContext kNoTargets = {.train = false, .targets = false};

std::vector<float> floats_of(const Array& array) {
  const auto values = array.as<float>();
  return {values.begin(), values.end()};
}

TEST(WithoutTargetsTest, ATableNeedsNoTargetColumn) {
  const TempFolder folder;
  const std::string yaml =
      "{type: csv, target: kind, path: " + folder.write("t.csv", "a,b\n1,2\n3,4\n") + "}";
  EXPECT_NE(complaint<Dataset>(yaml), "");
  const auto data = build<Dataset>(yaml, kNoTargets);
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(floats_of(data->sample(1).input), (std::vector<float>{3, 4}));
  EXPECT_EQ(data->shape().classes, 0);
}

TEST(WithoutTargetsTest, ATargetColumnThatIsThereIsNoFeature) {
  const TempFolder folder;
  const auto data = build<Dataset>(
      "{type: csv, target: kind, path: " + folder.write("t.csv", "a,kind,b\n1,unseen,2\n") + "}",
      kNoTargets);
  EXPECT_EQ(floats_of(data->sample(0).input), (std::vector<float>{1, 2}));
}

TEST(WithoutTargetsTest, LinesOfJsonNeedNoTargetField) {
  const TempFolder folder;
  const std::string yaml =
      "{type: jsonl, target: label, path: " + folder.write("t.jsonl", "{\"text\": \"good\"}\n") +
      ", tokenizer: " + folder.write("tokenizer.json", kSmallTokenizer) + "}";
  EXPECT_NE(complaint<Dataset>(yaml), "");
  EXPECT_EQ(build<Dataset>(yaml, kNoTargets)->sample(0).input.count(), 3);
}

TEST(WithoutTargetsTest, ArraysNeedNoFileOfTargets) {
  const TempFolder folder;
  const std::string source =
      std::getenv("ACCEL_SOURCE_DIR") ? std::getenv("ACCEL_SOURCE_DIR") : ".";
  const std::string points = source + "/recipes/tiny/data/points.npy";
  const auto data =
      build<Dataset>("{type: npy, inputs: " + points + ", targets: " + points + "}", kNoTargets);
  EXPECT_GT(data->size(), 1);
  EXPECT_EQ(data->shape().classes, 1) << "undefined targets are zeros";
  const std::string images = folder.write(
      "images.idx", std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x01\xff\0", 18));
  const auto pictures =
      build<Dataset>("{type: idx, images: " + images + ", labels: " + images + "}", kNoTargets);
  ASSERT_EQ(pictures->size(), 2);
  EXPECT_EQ(floats_of(pictures->sample(0).input), (std::vector<float>{1}));
}

TEST(WithoutTargetsTest, ImagesNeedNoFoldersOfClasses) {
  const char* source = std::getenv("ACCEL_SOURCE_DIR");
  const std::string yaml = "{type: image_folder, path: " + std::string(source ? source : ".") +
                           "/recipes/tiny/data/bars/lying}";
  EXPECT_NE(complaint<Dataset>(yaml), "");
  const auto data = build<Dataset>(yaml, kNoTargets);
  EXPECT_EQ(data->size(), 8);
  EXPECT_EQ(data->name(3), "3.png");
  EXPECT_EQ(data->shape().classes, 0);
}

}  // namespace
}  // namespace accel::without_targets_test
