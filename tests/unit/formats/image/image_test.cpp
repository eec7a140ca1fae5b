#include "formats/image/image.h"

#include <cstdlib>

#include <gtest/gtest.h>
#include <zlib.h>

#include "formats/archive/tar.h"
#include "tests/unit/formats/real_data.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::image_test {
namespace {

/// An image and its pixels in Pillow 13 (tests/interop/make_image_goldens.py prints these rows).
struct Golden {
  const char* file;
  int64_t height;
  int64_t width;
  uint32_t rgb;
  uint32_t grey;
};

constexpr Golden kGoldens[] = {
    {"bit.png", 13, 19, 0x36eb0d89, 0xd137845f},
    {"cmyk.jpg", 13, 19, 0x2bfa2e2d, 0x13b35635},
    {"grey.jpg", 13, 19, 0x384f0b07, 0x5cd39c0f},
    {"grey16.png", 13, 19, 0x6644b633, 0x3b4760ff},
    {"grey16_alpha.png", 13, 19, 0x4d065b2d, 0x0483944d},
    {"grey16_interlaced.png", 13, 19, 0x6644b633, 0x3b4760ff},
    {"grey2.png", 13, 19, 0xb90263a4, 0xd10e930d},
    {"grey4.png", 13, 19, 0x31e1d7b3, 0xd7103155},
    {"grey_alpha.png", 13, 19, 0xd93e9146, 0x0c0d3548},
    {"interlaced.png", 13, 19, 0xe1f7f07f, 0x0c0d3548},
    {"palette.png", 13, 19, 0x9dd0175d, 0xf08d67fd},
    {"palette4.png", 13, 19, 0xca749fab, 0x32c84197},
    {"progressive.jpg", 13, 19, 0xa451e955, 0x7b6b2960},
    {"rgb.png", 13, 19, 0xe1f7f07f, 0x0c0d3548},
    {"rgb16.png", 13, 19, 0x21e6a462, 0x6b67d8bf},
    {"rgb_420.jpg", 13, 19, 0x90494902, 0x5cd39c0f},
    {"rgb_422.jpg", 13, 19, 0x27021d38, 0x5cd39c0f},
    {"rgb_444.jpg", 13, 19, 0xfea8f056, 0x5cd39c0f},
    {"tall.png", 19, 13, 0xa9d69431, 0xf7e0981a},
    {"rgba.png", 13, 19, 0xe1f7f07f, 0x0c0d3548},
};

std::string golden_file(const std::string& name) {
  return file_content(std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/tests/unit/formats/golden/" +
                      name);
}

uint32_t crc_of(const Array& pixels) {
  return static_cast<uint32_t>(
      crc32(0, pixels.as<uint8_t>().data(), static_cast<uInt>(pixels.bytes())));
}

/// A PNG with only a header, of the given size.
std::string png_claiming(uint32_t width, uint32_t height) {
  std::string header = "IHDR" + big_endian_32(width) + big_endian_32(height);
  header += std::string("\x08\x02\0\0\0", 5);
  const auto crc = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(header.data()), static_cast<uInt>(header.size())));
  return "\x89PNG\r\n\x1a\n" + big_endian_32(13) + header + big_endian_32(crc) + big_endian_32(0) +
         "IDAT";
}

TEST(ImageTest, PixelsAreThoseOfPillow) {
  for (const Golden& golden : kGoldens) {
    SCOPED_TRACE(golden.file);
    const std::string file = golden_file(golden.file);
    EXPECT_EQ(image_size(bytes_of(file), golden.file), (ImageSize{golden.height, golden.width}));
    const Array rgb = decode_image(bytes_of(file), Channels::kRgb, golden.file);
    EXPECT_EQ(rgb.shape(), (Shape{golden.height, golden.width, 3}));
    EXPECT_EQ(crc_of(rgb), golden.rgb);
    const Array grey = decode_image(bytes_of(file), Channels::kGray, golden.file);
    EXPECT_EQ(grey.shape(), (Shape{golden.height, golden.width, 1}));
    EXPECT_EQ(crc_of(grey), golden.grey);
  }
}

TEST(ImageTest, InksWithoutAdobesMarkerAreThoseOfPillowToo) {
  constexpr size_t kMarker = 2, kMarkerBytes = 16;
  std::string file = golden_file("cmyk.jpg");
  ASSERT_EQ(file.substr(kMarker + 4, 5), "Adobe");
  file.erase(kMarker, kMarkerBytes);
  EXPECT_EQ(crc_of(decode_image(bytes_of(file), Channels::kRgb, "cmyk.jpg")), 0x2bfa2e2dU);
  EXPECT_EQ(crc_of(decode_image(bytes_of(file), Channels::kGray, "cmyk.jpg")), 0x13b35635U);
}

TEST(ImageTest, RealPhotographsAreThoseOfPillow) {
  const std::string path = real_data("cifar10-images.tar");
  if (path.empty()) GTEST_SKIP() << "skipped: the real data is not here";
  const SharedBytes archive = map_file(path);
  uint32_t crc = 0;
  for (const TarMember& member : index_tar(archive.view, path)) {
    if (member.name.find("/test/") == std::string::npos) continue;
    const Array pixels =
        decode_image(archive.view.subspan(member.offset, member.size), Channels::kRgb, member.name);
    crc = static_cast<uint32_t>(
        crc32(crc, pixels.as<uint8_t>().data(), static_cast<uInt>(pixels.bytes())));
  }
  EXPECT_EQ(crc, 0x9a6563ceu);  // zlib.crc32 over Image.open(...).convert('RGB') of each, in order
}

TEST(ImageTest, EveryTruncationIsRefusedOrShorterThanTheEndMarker) {
  for (const Golden& golden : kGoldens) {
    const std::string file = golden_file(golden.file);
    for (size_t size = 0; size + 30 < file.size(); ++size) {
      EXPECT_NE(complaint([&] {
                  decode_image(bytes_of(file.substr(0, size)), Channels::kRgb, golden.file);
                }),
                "")
          << golden.file << " of " << size << " bytes";
    }
  }
}

TEST(ImageTest, EveryFlippedBitIsSurvived) {
  for (const Golden& golden : kGoldens) {
    std::string file = golden_file(golden.file);
    for (size_t bit = 0; bit < file.size() * 8; bit += 7) {
      file[bit / 8] ^= static_cast<char>(1 << bit % 8);
      complaint([&] { decode_image(bytes_of(file), Channels::kRgb, golden.file); });
      file[bit / 8] ^= static_cast<char>(1 << bit % 8);
    }
  }
}

TEST(ImageTest, DamageIsNamed) {
  const std::string jpeg = golden_file("rgb_420.jpg");
  EXPECT_EQ(
      complaint([&] { decode_image(bytes_of(jpeg.substr(0, 650)), Channels::kRgb, "a.jpg"); }),
      "'a.jpg' is a damaged JPEG: Premature end of JPEG file");
  std::string png = golden_file("rgb.png");
  EXPECT_EQ(complaint([&] { decode_image(bytes_of(png.substr(0, 300)), Channels::kRgb, "a.png"); }),
            "'a.png' is a damaged PNG: the file is truncated");
  png[29] ^= 1;
  EXPECT_EQ(complaint([&] { decode_image(bytes_of(png), Channels::kRgb, "a.png"); }),
            "'a.png' is a damaged PNG: IHDR: CRC error");
  EXPECT_EQ(complaint([&] { image_size(bytes_of("GIF89a"), "a.gif"); }),
            "'a.gif' is neither a JPEG nor a PNG image");
}

TEST(ImageTest, AJpegOfTwoChannelsIsRefused) {
  constexpr char kHeaders[] =
      "\xff\xd8\xff\xc0\0\x0e\x08\0\x01\0\x01\x02\x01\x11\0\x02\x11\0"  // size 1 x 1
      "\xff\xda\0\x0a\x02\x01\0\x02\0\0\x3f\0";
  const std::string jpeg(kHeaders, sizeof kHeaders - 1);
  EXPECT_EQ(complaint([&] { image_size(bytes_of(jpeg), "a.jpg"); }),
            "'a.jpg' has 2 channels, 1, 3 or 4 wanted");
}

TEST(ImageTest, ClaimsBeyondTheFileAreRefusedBeforeMemoryIsTaken) {
  EXPECT_EQ(complaint([] { image_size(bytes_of(png_claiming(100'000, 100'000)), "a.png"); }),
            "'a.png' claims 100000 x 100000 pixels, at most 64 Mpx wanted");
  EXPECT_EQ(complaint([] { image_size(bytes_of(png_claiming(5000, 5000)), "a.png"); }),
            "'a.png' claims 5000 x 5000 pixels, more than its 41 bytes can hold");
  std::string jpeg = golden_file("progressive.jpg");
  const size_t frame = jpeg.find("\xff\xc2");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\x1f\xff\x1f\xff");
  EXPECT_EQ(complaint([&] { decode_image(bytes_of(jpeg), Channels::kRgb, "a.jpg"); }),
            "'a.jpg' claims 8191 x 8191 pixels, more than its 600 bytes can hold");
}

}  // namespace
}  // namespace accel::image_test
