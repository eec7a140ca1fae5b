#include "data/transforms/resample.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <utility>

namespace accel::resample_test {
namespace {

uint32_t crc_of(const Array& array) {
  return static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(array.data()), static_cast<uInt>(array.bytes())));
}

Array byte_picture(Shape shape) {
  Array out(DType::kU8, std::move(shape));
  const auto pixels = out.mutable_as<uint8_t>();
  for (uint64_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<uint8_t>((i * i * 31 + i * 17) % 251);
  }
  return out;
}

/// f32 [channels, height, width] in [0, 1] as u8 [height, width, channels].
Array bytes_of(const Array& planes) {
  const int64_t channels = planes.shape()[0], pixels = planes.shape()[1] * planes.shape()[2];
  Array out(DType::kU8, {planes.shape()[1], planes.shape()[2], channels});
  for (int64_t i = 0; i < channels * pixels; ++i) {
    const float value = planes.as<float>()[static_cast<size_t>(i)];
    const auto byte = static_cast<uint8_t>(std::lround(value * 255));
    EXPECT_EQ(value, static_cast<float>(byte) / 255.0F);
    out.mutable_as<uint8_t>()[static_cast<size_t>(i % pixels * channels + i / pixels)] = byte;
  }
  return out;
}

TEST(ResampleTest, BytesAreThoseOfPillow) {
  // zlib.crc32(Image.fromarray(picture).resize((width, height), mode).tobytes()), Pillow 13.
  const struct {
    Shape picture;
    ImageSize size;
    Interpolation interpolation;
    uint32_t crc;
  } cases[] = {
      {{7, 9, 3}, {3, 4}, Interpolation::kBilinear, 0x655d52bd},
      {{7, 9, 3}, {3, 4}, Interpolation::kBicubic, 0xa30e3b89},
      {{7, 9, 3}, {3, 4}, Interpolation::kNearest, 0xaa6def71},
      {{7, 9, 3}, {11, 13}, Interpolation::kBilinear, 0x1b691ac6},
      {{7, 9, 3}, {11, 13}, Interpolation::kBicubic, 0x768f2d0d},
      {{7, 9, 3}, {11, 13}, Interpolation::kNearest, 0xa4931df2},
      {{7, 9, 3}, {3, 9}, Interpolation::kBilinear, 0xc7852d33},
      {{7, 9, 3}, {3, 9}, Interpolation::kBicubic, 0x1a791d3d},
      {{7, 9, 3}, {3, 9}, Interpolation::kNearest, 0xc09ddbca},
      {{7, 9, 3}, {7, 5}, Interpolation::kBilinear, 0xe53ad3d2},
      {{7, 9, 3}, {7, 5}, Interpolation::kBicubic, 0x3912c1d1},
      {{7, 9, 3}, {7, 5}, Interpolation::kNearest, 0x0ff79284},
      // Below, at and beyond whole vectors of 16 bytes in each dimension; the height first and
      // last.
      {{35, 53, 3}, {17, 33}, Interpolation::kBilinear, 0xfacba25a},
      {{35, 53, 3}, {17, 33}, Interpolation::kBicubic, 0xaf623aed},
      {{35, 53, 3}, {17, 33}, Interpolation::kNearest, 0x270c06ff},
      {{35, 53, 3}, {64, 16}, Interpolation::kBilinear, 0x9363cd70},
      {{35, 53, 3}, {64, 16}, Interpolation::kBicubic, 0x86742161},
      {{35, 53, 3}, {64, 16}, Interpolation::kNearest, 0xa0e7779b},
      {{40, 16, 3}, {16, 5}, Interpolation::kBilinear, 0xb3a8fa55},
      {{40, 16, 3}, {16, 5}, Interpolation::kBicubic, 0x6828fd83},
      {{40, 16, 3}, {16, 5}, Interpolation::kNearest, 0xa886bf13},
      {{1, 1, 3}, {4, 18}, Interpolation::kBilinear, 0x6d330821},
      {{1, 1, 3}, {4, 18}, Interpolation::kBicubic, 0x6d330821},
      {{1, 1, 3}, {4, 18}, Interpolation::kNearest, 0x6d330821},
      {{33, 70, 1}, {20, 31}, Interpolation::kBilinear, 0x92795192},
      {{33, 70, 1}, {20, 31}, Interpolation::kBicubic, 0x946a8522},
      {{33, 70, 1}, {20, 31}, Interpolation::kNearest, 0x6a73d49c},
      {{16, 32, 1}, {30, 64}, Interpolation::kBilinear, 0x8689e196},
      {{16, 32, 1}, {30, 64}, Interpolation::kBicubic, 0x8b481cae},
      {{16, 32, 1}, {30, 64}, Interpolation::kNearest, 0x6017c6f6},
      {{90, 100, 3}, {2, 3}, Interpolation::kBilinear, 0xbb03e000},
      {{90, 100, 3}, {2, 3}, Interpolation::kBicubic, 0x66953985},
      {{90, 100, 3}, {2, 3}, Interpolation::kNearest, 0x7ea0b2f0},
      {{50, 20, 3}, {30, 37}, Interpolation::kBilinear, 0xadfcf016},
      {{50, 20, 3}, {30, 37}, Interpolation::kBicubic, 0x778f35fd},
      {{50, 20, 3}, {30, 37}, Interpolation::kNearest, 0xf2ef2632},
  };
  for (const auto& c : cases) {
    const Array out = resample_bytes(byte_picture(c.picture), c.size, c.interpolation);
    EXPECT_EQ(crc_of(bytes_of(out)), c.crc)
        << to_string(c.picture) << " to " << c.size.height << " x " << c.size.width;
  }
}

TEST(ResampleTest, EqualSizesKeepTheBytes) {
  for (const Shape& shape : {Shape{18, 40, 3}, Shape{5, 16, 1}, Shape{1, 1, 3}}) {
    const Array picture = byte_picture(shape);
    const Array out = resample_bytes(picture, {shape[0], shape[1]}, Interpolation::kBicubic);
    EXPECT_EQ(out.shape(), (Shape{shape[2], shape[0], shape[1]}));
    EXPECT_EQ(crc_of(bytes_of(out)), crc_of(picture));
  }
}

TEST(ResampleTest, FloatsAreThoseOfPillow) {
  const struct {
    ImageSize picture, size;
    Interpolation interpolation;
    uint32_t crc;
  } cases[] = {
      {{5, 7}, {2, 3}, Interpolation::kBilinear, 0xe7fb1429},
      {{5, 7}, {2, 3}, Interpolation::kBicubic, 0xeeafe39e},
      {{5, 7}, {9, 8}, Interpolation::kBilinear, 0xbfd392b8},
      {{5, 7}, {9, 8}, Interpolation::kBicubic, 0x20cc12b1},
      {{11, 4}, {2, 3}, Interpolation::kBilinear, 0xd35ea542},
      {{11, 4}, {2, 3}, Interpolation::kBicubic, 0x9475309f},
      {{11, 4}, {9, 8}, Interpolation::kBilinear, 0xef9dc0b8},
      {{11, 4}, {9, 8}, Interpolation::kBicubic, 0x7cbb3a0a},
  };
  for (const auto& c : cases) {
    Array picture(DType::kF32, {1, c.picture.height, c.picture.width});
    for (int i = 0; i < picture.count(); ++i) {
      picture.mutable_as<float>()[i] = static_cast<float>(static_cast<double>(i * i % 23) / 23.0);
    }
    EXPECT_EQ(crc_of(resample_floats(picture, c.size, c.interpolation)), c.crc)
        << c.picture.height << " to " << c.size.height << " x " << c.size.width;
  }
}

TEST(ResampleTest, OneValueIsTheShorterSide) {
  EXPECT_EQ(resized({480, 640}, {256}), (ImageSize{256, 341}));
  EXPECT_EQ(resized({640, 480}, {256}), (ImageSize{341, 256}));
  EXPECT_EQ(resized({640, 480}, {10, 20}), (ImageSize{10, 20}));
  EXPECT_EQ(resized({0, 0}, {10}), (ImageSize{0, 0}));
}

}  // namespace
}  // namespace accel::resample_test
