#include "formats/image/image.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "tests/unit/formats/test_bytes.h"

namespace accel::png_writer_test {
namespace {

std::vector<uint8_t> decoded(const std::string& png, Channels channels) {
  const Array pixels = decode_image(std::as_bytes(std::span(png)), channels, "made.png");
  const auto bytes = pixels.as<uint8_t>();
  return {bytes.begin(), bytes.end()};
}

TEST(PngWriterTest, PixelsReadBack) {
  const std::vector<uint8_t> grey = {0, 1, 2, 253, 254, 255};
  EXPECT_EQ(decoded(encode_png({2, 3}, 1, grey), Channels::kGray), grey);
  EXPECT_EQ(decoded(encode_png({1, 2}, 3, grey), Channels::kRgb), grey);
}

TEST(PngWriterTest, PixelsThatDoNotFitTheSizeAreABug) {
  const std::vector<uint8_t> five(5);
  EXPECT_THROW(encode_png({2, 3}, 1, five), std::logic_error);
  EXPECT_THROW(encode_png({0, 3}, 1, {}), std::logic_error);
  EXPECT_THROW(encode_png({1, 1}, 5, five), std::logic_error);
}

TEST(PngWriterTest, AnImageThatPngCannotHoldIsAnError) {
  constexpr int64_t kWide = 1'000'001;
  EXPECT_EQ(complaint([] {
              encode_png({1, kWide}, 1, std::vector<uint8_t>(kWide));
            }),
            "cannot encode an image of 1000001 x 1 pixels as PNG: Invalid IHDR data");
}

}  // namespace
}  // namespace accel::png_writer_test
