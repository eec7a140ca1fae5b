#include "formats/archive/compression.h"

#include <gtest/gtest.h>

#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::gzip_test {
namespace {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string unzipped(const std::string& packed, size_t cap) {
  return text_of(gunzip(bytes_of(packed), cap, "a.gz").view);
}

TEST(GzipTest, WhatWasPackedComesBack) {
  for (const size_t size : {0u, 1u, 1000u, 65536u, 65537u, 1'000'000u}) {
    std::string text;
    while (text.size() < size) text += std::to_string(text.size() * 7919) + " ";
    text.resize(size);
    EXPECT_EQ(unzipped(gzip_of(text), size), text) << size;
    EXPECT_EQ(unzipped(gzip_of(text), size + 5), text) << size;
  }
}

TEST(GzipTest, MembersAreJoinedAndPaddingIsSkipped) {
  const std::string packed =
      gzip_of("one ") + gzip_of("") + gzip_of("two") + std::string(100, '\0');
  EXPECT_EQ(unzipped(packed, 100), "one two");
}

TEST(GzipTest, ABombStopsAtTheCap) {
  const std::string packed = gzip_of(std::string(1'000'000, 'x'));
  EXPECT_EQ(complaint([&] { unzipped(packed, 999'999); }),
            "'a.gz' inflates to more than 999999 bytes");
}

TEST(GzipTest, TheStartNeedsNoMoreThanTheStart) {
  const std::string packed = gzip_of("abcdef" + std::string(1'000'000, 'x'));
  const auto start = gunzip_start(bytes_of(packed), 6, "a.gz");
  EXPECT_EQ(text_of(start), "abcdef");
  EXPECT_EQ(gunzip_start(bytes_of(gzip_of("ab")), 6, "a.gz").size(), 2u);
}

TEST(GzipTest, EveryTruncationAndTrailingBytesAreRefused) {
  const std::string packed = gzip_of("some text that is packed");
  for (size_t size = 2; size < packed.size(); ++size) {
    EXPECT_EQ(complaint([&] { unzipped(packed.substr(0, size), 100); }),
              "'a.gz' is truncated: its gzip stream has no end");
  }
  EXPECT_EQ(complaint([&] { unzipped(packed + "x", 100); }),
            "'a.gz' has bytes after its gzip stream that are not gzip");
}

TEST(GzipTest, AWrongChecksumIsRefused) {
  std::string packed = gzip_of("some text that is packed");
  packed[packed.size() - 8] ^= 1;
  EXPECT_EQ(complaint([&] { unzipped(packed, 100); }), "'a.gz' is damaged: incorrect data check");
}

TEST(GzipTest, ContentDecidesNotTheName) {
  const TempFolder folder;
  const std::string packed = folder.write("a.txt", gzip_of("text"));
  const std::string plain = folder.write("b.gz", "text");
  EXPECT_EQ(text_of(map_or_gunzip(packed, 10).view), "text");
  EXPECT_EQ(text_of(map_or_gunzip(plain, 10).view), "text");
}

/// A zstd frame of one uncompressed block.
std::string zstd_of(const std::string& text) {
  const auto size = static_cast<char>(text.size());
  const std::string magic = "\x28\xb5\x2f\xfd";
  const char header[] = {0x20, size, static_cast<char>(size << 3 | 1), 0, 0};
  return magic + std::string(header, sizeof header) + text;
}

TEST(ZstdTest, TheSizeMustBeTheOneThatIsKnown) {
  const std::string packed = zstd_of("abc");
  EXPECT_EQ(text_of(unzstd(bytes_of(packed), 3, "a.zst")), "abc");
  EXPECT_EQ(complaint([&] { unzstd(bytes_of(packed), 5, "a.zst"); }),
            "'a.zst' decompresses to 3 bytes, 5 wanted");
  EXPECT_EQ(complaint([&] { unzstd(bytes_of(packed), 2, "a.zst"); }),
            "'a.zst' is damaged: Destination buffer is too small");
}

}  // namespace
}  // namespace accel::gzip_test
