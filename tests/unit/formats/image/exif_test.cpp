#include "formats/image/exif.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/formats/test_bytes.h"

namespace accel::exif_test {
namespace {

/// A TIFF structure with one entry, the orientation.
std::string tiff(bool little, char number) {
  return little ? std::string("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", 18) + number +
                      std::string("\0\0\0", 3)
                : std::string("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 19) + number +
                      std::string("\0\0", 2);
}

std::string segment(const std::string& marker, const std::string& content) {
  const size_t length = content.size() + 2;
  return marker + static_cast<char>(length >> 8) + static_cast<char>(length & 0xff) + content;
}

std::string jpeg(const std::string& exif) {
  return "\xff\xd8" + segment("\xff\xe0", "JFIF") +
         segment("\xff\xe1", std::string("Exif\0\0", 6) + exif);
}

std::string png(const std::string& exif) {
  const auto chunk = [](const std::string& type, const std::string& content) {
    return std::string("\0\0\0", 3) + static_cast<char>(content.size()) + type + content + "crc_";
  };
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", std::string(13, 'x')) + chunk("eXIf", exif);
}

TEST(ExifTest, TheOrientationIsFound) {
  for (char number = 1; number <= 8; ++number) {
    for (const bool little : {true, false}) {
      EXPECT_EQ(exif_orientation(bytes_of(jpeg(tiff(little, number)))), number);
      EXPECT_EQ(exif_orientation(bytes_of(png(tiff(little, number)))), number);
    }
  }
}

TEST(ExifTest, DamagedOrOtherExifIsUpright) {
  EXPECT_EQ(exif_orientation(bytes_of(jpeg(tiff(true, 9)))), 1);
  EXPECT_EQ(exif_orientation(bytes_of(jpeg(tiff(true, 6)).substr(0, 30))), 1) << "truncated";
  EXPECT_EQ(exif_orientation(bytes_of(jpeg("XX" + tiff(true, 6).substr(2)))), 1);
  EXPECT_EQ(exif_orientation(bytes_of("\xff\xd8\xff\xda" + jpeg(tiff(true, 6)))), 1)
      << "after the pixels";
  EXPECT_EQ(exif_orientation(bytes_of("GIF89a")), 1);
  EXPECT_EQ(exif_orientation({}), 1);
}

/// Two rows of three pixels, 1 to 6, as their rows read.
std::string turned(int orientation) {
  Array pixels(DType::kU8, {2, 3, 1});
  for (uint8_t i = 0; i < 6; ++i) pixels.mutable_as<uint8_t>()[i] = static_cast<uint8_t>(i + 1);
  const Array out = upright(pixels, orientation);
  std::string text;
  for (int64_t y = 0; y < out.shape()[0]; ++y) {
    if (y > 0) text += '/';
    for (int64_t x = 0; x < out.shape()[1]; ++x) {
      text +=
          static_cast<char>('0' + out.as<uint8_t>()[static_cast<size_t>(y * out.shape()[1] + x)]);
    }
  }
  return text;
}

TEST(ExifTest, PixelsAreTurnedAsByPillow) {
  EXPECT_EQ(turned(1), "123/456");
  EXPECT_EQ(turned(2), "321/654");
  EXPECT_EQ(turned(3), "654/321");
  EXPECT_EQ(turned(4), "456/123");
  EXPECT_EQ(turned(5), "14/25/36");
  EXPECT_EQ(turned(6), "41/52/63");
  EXPECT_EQ(turned(7), "63/52/41");
  EXPECT_EQ(turned(8), "36/25/14");
}

TEST(ExifTest, ChannelsStayTogether) {
  Array pixels(DType::kU8, {1, 2, 3});
  for (uint8_t i = 0; i < 6; ++i) pixels.mutable_as<uint8_t>()[i] = i;
  const Array out = upright(pixels, 8);
  EXPECT_EQ(out.shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(out.as<uint8_t>()[0], 3);
  EXPECT_EQ(out.as<uint8_t>()[5], 2);
  EXPECT_EQ(upright_size({1, 2}, 8), (ImageSize{2, 1}));
  EXPECT_EQ(upright_size({1, 2}, 3), (ImageSize{1, 2}));
}

}  // namespace
}  // namespace accel::exif_test
