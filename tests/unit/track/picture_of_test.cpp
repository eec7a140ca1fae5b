#include "track/values.h"

#include <gtest/gtest.h>

#include <cmath>

#include "formats/image/image.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::picture_of_test {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(PictureOfTest, ChannelsOfAPixelComeTogether) {
  const Bytes planes = {0, 0, 0, 0, 0, 0, 1, 2, 11, 12, 21, 22};
  const Array inputs = Array::of<uint8_t>(DType::kU8, {2, 3, 1, 2}, planes);
  const auto picture = picture_of(inputs, 1);
  ASSERT_TRUE(picture);
  EXPECT_EQ(picture->height, 1);
  EXPECT_EQ(picture->width, 2);
  EXPECT_EQ(picture->channels, 3);
  EXPECT_EQ(picture->pixels, (Bytes{1, 11, 21, 2, 12, 22}));
}

TEST(PictureOfTest, FloatsAreSpreadFromBlackToWhite) {
  const std::vector<float> values = {-1, 0, 3, NAN};
  const Array inputs = Array::of<float>(DType::kF32, {1, 1, 2, 2}, values);
  EXPECT_EQ(picture_of(inputs, 0)->pixels, (Bytes{0, 64, 255, 0}));
  const std::vector<float> same = {7, 7};
  EXPECT_EQ(picture_of(Array::of<float>(DType::kF32, {1, 1, 1, 2}, same), 0)->pixels,
            (Bytes{0, 0}));
}

TEST(WritePictureTest, FileReadsBack) {
  const TempFolder folder;
  const std::string path = folder.path("samples/0.png");
  write_picture(folder.path(), path,
                {.height = 1, .width = 2, .channels = 3, .pixels = {1, 2, 3, 4, 5, 6}});
  const std::string file = file_content(path);
  const Array read = decode_image(bytes_of(file), Channels::kRgb, path);
  EXPECT_EQ(read.shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(read.as<uint8_t>()[5], 6);
}

TEST(PictureOfTest, WhatIsNoImageHasNoPicture) {
  EXPECT_FALSE(picture_of({}, 0));
  EXPECT_FALSE(picture_of(Array(DType::kF32, {1, 28, 28}), 0));
  EXPECT_FALSE(picture_of(Array(DType::kI64, {1, 1, 2, 2}), 0));
  EXPECT_FALSE(picture_of(Array(DType::kU8, {1, 2, 2, 2}), 0));
  EXPECT_FALSE(picture_of(Array(DType::kU8, {1, 1, 0, 2}), 0));
  EXPECT_FALSE(picture_of(Array(DType::kU8, {1, 1, 2, 2}), 1));
}

}  // namespace
}  // namespace accel::picture_of_test
