// The dataset `image_text`: images and texts of rows, padding, and rows that cannot be read.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/api/dataset.h"
#include "data/datasets/skipped_samples.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/refusal.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::image_text_test {
namespace {

using Ids = std::vector<int64_t>;

constexpr auto kRows =
    "{\"image\": \"a.png\", \"text\": \"good film\"}\n"
    "{\"image\": \"deep/b.jpg\", \"text\": \"films\"}\n";

class ImageTextTest : public testing::Test {
 protected:
  ImageTextTest() {
    const std::string golden =
        std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/tests/unit/formats/golden/";
    folder_.write("a.png", file_content(golden + "rgb.png"));
    folder_.write("deep/b.jpg", file_content(golden + "rgb_420.jpg"));
    folder_.write("damaged.png", "no image");
  }

  std::unique_ptr<Dataset> dataset(const std::string& content, const std::string& more = "",
                                   const std::string& file = "t.jsonl",
                                   const std::string& tokenizer = kSmallTokenizer) {
    folder_.write(file, content);
    folder_.write("tokenizer.json", tokenizer);
    return build<Dataset>("{type: image_text, path: " + folder_.path(file) + ", tokenizer: " +
                          folder_.path("tokenizer.json") + ", max_length: 5" + more + "}");
  }
  std::string refusal(const std::string& content, const std::string& more = "",
                      const std::string& tokenizer = kSmallTokenizer) {
    return refusal_in(folder_, [&] { dataset(content, more, "t.jsonl", tokenizer); });
  }
  static Ids ids(const Array& tokens) {
    const auto values = tokens.as<int64_t>();
    return {values.begin(), values.end()};
  }

  TempFolder folder_;
};

TEST_F(ImageTextTest, ASampleIsAnImageAndAPaddedText) {
  const auto data = dataset(kRows);
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(data->sample(0).input.shape(), (Shape{3, 13, 19}));
  EXPECT_EQ(ids(data->sample(0).target), (Ids{2, 5, 7, 3, 0}));
  EXPECT_EQ(ids(data->sample(1).target), (Ids{2, 7, 8, 3, 0}));
  EXPECT_EQ(data->name(1), "deep/b.jpg");
  const DataShape shape = data->shape();
  EXPECT_EQ(shape.input, (Shape{3, 13, 19}));
  EXPECT_EQ(shape.target, (Shape{5}));
  EXPECT_EQ(shape.vocab, 9);
  EXPECT_FALSE(shape.padding);
}

TEST_F(ImageTextTest, ALongTextIsCutBeforeItsEndToken) {
  const auto data = dataset("{\"image\": \"a.png\", \"text\": \"good good bad bad bad\"}\n");
  EXPECT_EQ(ids(data->sample(0).target), (Ids{2, 5, 5, 6, 3}));
}

TEST_F(ImageTextTest, TheExtensionNamesTheFormatAndImagesMayBeElsewhere) {
  const auto lines = dataset(kRows);
  const std::string images = ", images: " + folder_.path("deep");
  const auto table = dataset("caption,file_name\nfilms,b.jpg\n",
                             ", image: file_name, text: caption" + images, "t.csv");
  ASSERT_EQ(table->size(), 1);
  EXPECT_EQ(ids(table->sample(0).target), ids(lines->sample(1).target));
  EXPECT_NE(table->fingerprint(), lines->fingerprint());
}

TEST_F(ImageTextTest, ImagesAreResizedAndGray) {
  const auto data = dataset(kRows, ", size: [4, 6], grayscale: true");
  EXPECT_EQ(data->shape().input, (Shape{1, 4, 6}));
  EXPECT_EQ(data->sample(1).input.shape(), (Shape{1, 4, 6}));
}

TEST_F(ImageTextTest, MissingAndDamagedImagesAreRefusedOrSkipped) {
  const std::string missing = "{\"image\": \"none.png\", \"text\": \"film\"}\n";
  const std::string damaged = "{\"image\": \"damaged.png\", \"text\": \"film\"}\n";
  EXPECT_EQ(refusal(kRows + missing),
            "t.jsonl:3: there is no image '" + folder_.path("none.png") + "'");
  EXPECT_NE(refusal(damaged), "");
  const auto data = dataset(missing + kRows + damaged, ", on_bad_sample: skip(2)");
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(data->name(0), "a.png");
  EXPECT_EQ(ids(data->sample(1).target), (Ids{2, 7, 8, 3, 0}));
  EXPECT_EQ(left_out(*data), 2);
}

/// With an end token that the tokenizer does not add.
std::string tokenizer_with_end() {
  std::string out = kSmallTokenizer;
  const std::string from = "\"content\": \"[MASK]\"";
  out.replace(out.find(from), from.size(), "\"content\": \"</s>\"");
  const std::string token = "\"[MASK]\": 4";
  out.replace(out.find(token), token.size(), "\"</s>\": 4");
  return out;
}

TEST_F(ImageTextTest, ATextHasItsEndToken) {
  EXPECT_EQ(refusal(kRows, "", tokenizer_with_end()),
            "'t.jsonl': the text of 'a.png' has no end token '</s>'");
  const std::string rows =
      std::string(kRows) + "{\"image\": \"a.png\", \"text\": \"bad bad bad bad\"}\n";
  const auto data = dataset(rows, ", append_eos: true", "t.jsonl", tokenizer_with_end());
  EXPECT_EQ(ids(data->sample(2).target), (Ids{2, 6, 6, 6, 4}));
}

}  // namespace
}  // namespace accel::image_text_test
