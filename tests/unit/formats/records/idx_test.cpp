#include "formats/records/idx.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "core/base/text.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::idx_test {
namespace {

std::string idx_header(char type, const std::vector<uint32_t>& sizes) {
  std::string out = {'\0', '\0', type, static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes) out += big_endian_32(size);
  return out;
}

Array parsed(const std::string& file) {
  return parse_idx(shared_bytes(file), "a.idx");
}
std::string idx_complaint(const std::string& file) {
  return complaint([&] { parsed(file); });
}

TEST(IdxTest, BytesAreSharedWithTheFile) {
  const std::string file = idx_header(0x08, {2, 1, 3}) + "abcdef";
  const Array array = parsed(file);
  EXPECT_EQ(array.type(), DType::kU8);
  EXPECT_EQ(array.shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(array.data(), bytes_of(file).data() + 16);
}

TEST(IdxTest, WideValuesAreTurnedFromBigEndian) {
  const Array words = parsed(idx_header(0x0c, {2}) + big_endian_32(5) + big_endian_32(0xfffffffe));
  EXPECT_EQ(words.type(), DType::kI32);
  EXPECT_EQ(words.as<int32_t>()[0], 5);
  EXPECT_EQ(words.as<int32_t>()[1], -2);
  const Array floats = parsed(idx_header(0x0d, {1}) + big_endian_32(0x3fc00000));
  EXPECT_EQ(floats.as<float>()[0], 1.5f);
  EXPECT_EQ(parsed(idx_header(0x0b, {1}) + std::string("\x01\x02")).as<int16_t>()[0], 258);
  EXPECT_EQ(parsed(idx_header(0x09, {1}) + "\xff").as<int8_t>()[0], -1);
  const Array wide = parsed(idx_header(0x0e, {1}) + big_endian_32(0x40040000) + big_endian_32(0));
  EXPECT_EQ(wide.as<double>()[0], 2.5);
}

TEST(IdxTest, WrongHeadersAreRefused) {
  EXPECT_EQ(idx_complaint("abcd"),
            "'a.idx' is not an IDX file: it does not start with two zero bytes");
  EXPECT_EQ(idx_complaint(""), "'a.idx' is not an IDX file: it does not start with two zero bytes");
  EXPECT_EQ(idx_complaint(idx_header(0x0a, {1}) + "x"),
            "'a.idx' has the unsupported IDX value type 10");
  EXPECT_EQ(idx_complaint(idx_header(0x08, {})), "'a.idx' has 0 dimensions, 1 to 8 wanted");
  EXPECT_EQ(idx_complaint(idx_header(0x08, std::vector<uint32_t>(9, 1))),
            "'a.idx' has 9 dimensions, 1 to 8 wanted");
  EXPECT_EQ(idx_complaint(idx_header(0x08, {1, 1}).substr(0, 10)),
            "'a.idx' ends inside its IDX header");
}

TEST(IdxTest, ClaimsThatTheFileDoesNotHoldAreRefused) {
  EXPECT_EQ(idx_complaint(idx_header(0x08, {3}) + "ab"),
            "'a.idx' claims [3] values of type U8, 11 bytes with the header, but has 10\n"
            "the file is truncated or damaged: copy it again");
  EXPECT_EQ(idx_complaint(idx_header(0x08, {3}) + "abcd").substr(0, 20), "'a.idx' claims [3] v");
  EXPECT_EQ(idx_complaint(idx_header(0x0e, {0xffffffff, 0xffffffff})),
            "'a.idx' claims the shape [4294967295, 4294967295], which is too large");
}

TEST(IdxTest, GzipIsReadAndItsClaimIsCheckedFirst) {
  const TempFolder folder;
  const std::string good = folder.write("good.gz", gzip_of(idx_header(0x08, {3}) + "abc"));
  EXPECT_EQ(read_idx(good).as<uint8_t>()[2], 'c');
  const std::string greedy =
      folder.write("greedy.gz", gzip_of(idx_header(0x08, {1u << 31, 1u << 20}) + "abc"));
  const std::string size = std::to_string(std::filesystem::file_size(greedy));
  EXPECT_EQ(complaint([&] { read_idx(greedy); }),
            text("'{}' claims 2251799813685260 bytes, more than {} bytes of gzip can hold", greedy,
                 size));
  const std::string longer = folder.write("longer.gz", gzip_of(idx_header(0x08, {3}) + "abcd"));
  EXPECT_EQ(complaint([&] { read_idx(longer); }),
            "'" + longer + "' inflates to more than 11 bytes");
}

TEST(IdxTest, ASparseFileLargerThanMemoryIsReadWithoutTakingIt) {
#if defined(ACCEL_TSAN)
  constexpr unsigned kRows = 1u << 17;  // a terabyte does not always find room beside its shadow
#else
  constexpr unsigned kRows = 1u << 20;
#endif
  constexpr size_t kBytes = size_t{kRows} << 20;
  const TempFolder folder;
  const std::string path = folder.write("huge.idx", idx_header(0x08, {1u << 20, kRows}));
  std::error_code error;
  std::filesystem::resize_file(path, kBytes + 12, error);
  if (error) GTEST_SKIP() << "skipped: no sparse files here: " << error.message();
  const Array array = read_idx(path);
  EXPECT_EQ(array.count(), static_cast<int64_t>(kBytes));
  EXPECT_EQ(array.as<uint8_t>()[array.count() - 1], 0);
}

}  // namespace
}  // namespace accel::idx_test
