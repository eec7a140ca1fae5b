#include "data/transforms/resample.h"

#include <gtest/gtest.h>
#include <zlib.h>

namespace accel::resample_test {
namespace {

uint32_t crc_of(const Array& array) {
  return static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(array.data()), static_cast<uInt>(array.bytes())));
}

Array byte_picture() {
  Array out(DType::kU8, {7, 9, 3});
  const auto pixels = out.mutable_as<uint8_t>();
  for (uint32_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<uint8_t>((i * i * 31 + i * 17) % 251);
  }
  return out;
}

TEST(ResampleTest, BytesAreThoseOfPillow) {
  // zlib.crc32(Image.fromarray(picture).resize((width, height), mode).tobytes()), Pillow 13.
  const struct {
    ImageSize size;
    Interpolation interpolation;
    uint32_t crc;
  } cases[] = {{{3, 4}, Interpolation::kBilinear, 0x655d52bd},
               {{3, 4}, Interpolation::kBicubic, 0xa30e3b89},
               {{3, 4}, Interpolation::kNearest, 0xaa6def71},
               {{11, 13}, Interpolation::kBilinear, 0x1b691ac6},
               {{11, 13}, Interpolation::kBicubic, 0x768f2d0d},
               {{11, 13}, Interpolation::kNearest, 0xa4931df2},
               {{3, 9}, Interpolation::kBilinear, 0xc7852d33},
               {{3, 9}, Interpolation::kBicubic, 0x1a791d3d},
               {{3, 9}, Interpolation::kNearest, 0xc09ddbca},
               {{7, 5}, Interpolation::kBilinear, 0xe53ad3d2},
               {{7, 5}, Interpolation::kBicubic, 0x3912c1d1},
               {{7, 5}, Interpolation::kNearest, 0x0ff79284}};
  for (const auto& c : cases) {
    const Array out = resample_bytes(byte_picture(), c.size, c.interpolation);
    EXPECT_EQ(crc_of(out), c.crc) << c.size.height << " x " << c.size.width;
  }
}

TEST(ResampleTest, FloatsAreThoseOfPillow) {
  Array picture(DType::kF32, {1, 5, 7});
  for (int i = 0; i < 35; ++i) {
    picture.mutable_as<float>()[i] = static_cast<float>(static_cast<double>(i * i % 23) / 23.0);
  }
  EXPECT_EQ(crc_of(resample_floats(picture, {2, 3}, Interpolation::kBilinear)), 0xe7fb1429);
  EXPECT_EQ(crc_of(resample_floats(picture, {9, 8}, Interpolation::kBilinear)), 0xbfd392b8);
  EXPECT_EQ(crc_of(resample_floats(picture, {2, 3}, Interpolation::kBicubic)), 0xeeafe39e);
  EXPECT_EQ(crc_of(resample_floats(picture, {9, 8}, Interpolation::kBicubic)), 0x20cc12b1);
}

TEST(ResampleTest, TheSameSizeIsTheSameMemory) {
  const Array picture = byte_picture();
  EXPECT_EQ(resample_bytes(picture, {7, 9}, Interpolation::kBilinear).data(), picture.data());
}

TEST(ResampleTest, OneValueIsTheShorterSide) {
  EXPECT_EQ(resized({480, 640}, {256}), (ImageSize{256, 341}));
  EXPECT_EQ(resized({640, 480}, {256}), (ImageSize{341, 256}));
  EXPECT_EQ(resized({640, 480}, {10, 20}), (ImageSize{10, 20}));
  EXPECT_EQ(resized({0, 0}, {10}), (ImageSize{0, 0}));
}

}  // namespace
}  // namespace accel::resample_test
