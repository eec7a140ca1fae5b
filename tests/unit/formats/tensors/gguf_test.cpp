#include "formats/tensors/gguf.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/formats/written.h"

namespace accel {
namespace {

using namespace std::string_literals;

TensorSource source(const std::string& name, const Shape& shape, const std::vector<float>& values) {
  const Array array = Array::of<float>(DType::kF32, shape, std::span(values));
  return {name, DType::kF32, shape, [array] { return array; }};
}

std::string stored(const std::vector<float>& values, GgmlType type) {
  const Array array =
      Array::of<float>(DType::kF32, {static_cast<int64_t>(values.size())}, std::span(values));
  return written([&](const ByteSink& sink) { write_ggml(array, type, sink); });
}

std::string write_fault(const std::vector<float>& values, GgmlType type) {
  return format_fault([&] { stored(values, type); });
}

TEST(GgufTest, ASmallFileHasTheseBytes) {
  GgufFile file;
  file.fields = {{"a", uint32_t{7}},
                 {"b", true},
                 {"c", std::string("xy")},
                 {"d", 1.5F},
                 {"e", std::vector<std::string>{"p", ""}},
                 {"f", std::vector<int32_t>{-1}},
                 {"g", std::vector<float>{2}},
                 {"h", std::vector<uint8_t>{9, 200}}};
  file.tensors = {{source("v", {3}, {1, 2, -2}), GgmlType::kF32},
                  {source("m", {2, 1}, {0.5, -1}), GgmlType::kF16}};
  const std::string expected =
      // the version, the counts of tensors and fields
      "GGUF\3\0\0\0\2\0\0\0\0\0\0\0\10\0\0\0\0\0\0\0"
      "\1\0\0\0\0\0\0\0a\4\0\0\0\7\0\0\0"
      "\1\0\0\0\0\0\0\0b\7\0\0\0\1"
      "\1\0\0\0\0\0\0\0c\10\0\0\0\2\0\0\0\0\0\0\0xy"
      "\1\0\0\0\0\0\0\0d\6\0\0\0\0\0\xc0\x3f"
      "\1\0\0\0\0\0\0\0e\11\0\0\0\10\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0p\0\0\0\0\0\0\0\0"
      "\1\0\0\0\0\0\0\0f\11\0\0\0\5\0\0\0\1\0\0\0\0\0\0\0\xff\xff\xff\xff"
      "\1\0\0\0\0\0\0\0g\11\0\0\0\6\0\0\0\1\0\0\0\0\0\0\0\0\0\0\x40"
      "\1\0\0\0\0\0\0\0h\11\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\11\xc8"
      // name, dimensions from the innermost on, type, offset
      "\1\0\0\0\0\0\0\0v\1\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
      "\1\0\0\0\0\0\0\0m\2\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\40\0\0\0\0\0\0\0"s;
  const std::string bytes = written([&](const ByteSink& sink) { write_gguf(file, sink); });
  ASSERT_EQ(bytes.substr(0, expected.size()), expected);
  const size_t data = (expected.size() + 31) / 32 * 32;
  EXPECT_EQ(bytes.substr(expected.size(), data - expected.size()),
            std::string(data - expected.size(), '\0'));
  EXPECT_EQ(bytes.substr(data), "\0\0\x80\x3f\0\0\0\x40\0\0\0\xc0"s + std::string(20, '\0') +
                                    "\0\x38\0\xbc"s + std::string(28, '\0'));
}

TEST(GgufTest, AnEmptyFileIsAHeader) {
  EXPECT_EQ(written([](const ByteSink& sink) { write_gguf({}, sink); }),
            "GGUF\3\0\0\0"s + std::string(24, '\0'));
}

TEST(GgufTest, NamesAreDistinctAndShort) {
  const auto write = [](const GgufFile& file) {
    written([&](const ByteSink& sink) { write_gguf(file, sink); });
  };
  EXPECT_THROW(write({.fields = {{"a", true}, {"a", false}}}), std::invalid_argument);
  const GgufTensor tensor = {source("v", {1}, {1}), GgmlType::kF32};
  EXPECT_THROW(write({.tensors = {tensor, tensor}}), std::invalid_argument);
  EXPECT_NO_THROW(write({.tensors = {{source(std::string(63, 'n'), {1}, {1}), GgmlType::kF32}}}));
  EXPECT_THROW(write({.tensors = {{source(std::string(64, 'n'), {1}, {1}), GgmlType::kF32}}}),
               std::invalid_argument);
}

TEST(GgufTest, AValueBeyondItsTypeNamesTheTensor) {
  const GgufFile file = {.tensors = {{source("big", {1, 1}, {70000}), GgmlType::kF16}}};
  EXPECT_EQ(format_fault([&] { written([&](const ByteSink& sink) { write_gguf(file, sink); }); }),
            "'big' has the value 70000, beyond float16's 65504");
}

// The bytes of this and the next test are those of the gguf package's quantize().
TEST(GgmlTypesTest, Q8BlocksHaveAScaleAndRoundHalvesAwayFromZero) {
  std::vector<float> values(32);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 2 - 8;
  values[31] = 127;  // a scale of 1
  std::string expected = "\0\x3c"s;
  for (const int value : {-8, -8, -7, -7, -6, -6, -5, -5, -4, -4, -3, -3, -2, -2, -1, -1,
                          0,  1,  1,  2,  2,  3,  3,  4,  4,  5,  5,  6,  6,  7,  7,  127}) {
    expected += static_cast<char>(value);
  }
  EXPECT_EQ(stored(values, GgmlType::kQ8_0), expected);
}

TEST(GgmlTypesTest, Q8BlocksAreIndependent) {
  std::vector<float> values(96, 0.0F);  // the first of zeros
  values[33] = -254;
  values[64] = 1e-40F;  // whose inverse scale is infinite
  const std::string bytes = stored(values, GgmlType::kQ8_0);
  EXPECT_EQ(bytes.substr(0, 34), std::string(34, '\0'));
  EXPECT_EQ(bytes.substr(34, 34), "\0\x40\0\x81"s + std::string(30, '\0'));
  EXPECT_EQ(bytes.substr(68), std::string(34, '\0'));
}

TEST(GgmlTypesTest, PiecesOfALongArrayAreJoined) {
  std::vector<float> values(32 * 5000, 1.0F);
  values.back() = -1;
  const std::string bytes = stored(values, GgmlType::kQ8_0);
  ASSERT_EQ(bytes.size(), size_t{34} * 5000);
  ASSERT_EQ(bytes.size(), ggml_bytes(GgmlType::kQ8_0, 32 * 5000));
  EXPECT_EQ(bytes[bytes.size() - 2], '\x7f');
  EXPECT_EQ(bytes.back(), '\x81');
}

TEST(GgmlTypesTest, Q8RefusesWhatItCannotHold) {
  std::vector<float> values(32, 1.0F);
  values[5] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(write_fault(values, GgmlType::kQ8_0), "has values that are not finite");
  values[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(write_fault(values, GgmlType::kQ8_0), "has values that are not finite");
  values[5] = 1e9F;
  EXPECT_EQ(write_fault(values, GgmlType::kQ8_0),
            "has values up to 1000000000, beyond the range of Q8_0");
  values.pop_back();
  EXPECT_THROW(stored(values, GgmlType::kQ8_0), std::logic_error);
}

TEST(GgmlTypesTest, HalvesRoundToTheNearestTiesToEven) {
  const std::pair<float, uint16_t> cases[] = {{0.0F, 0x0000},
                                              {-0.0F, 0x8000},
                                              {1.0F, 0x3c00},
                                              {1.0F + 0x1p-11F, 0x3c00},
                                              {1.0F + 0x1.8p-10F, 0x3c02},
                                              {1.0F + 0x1.1p-11F, 0x3c01},
                                              {65504.0F, 0x7bff},
                                              {65519.0F, 0x7bff},
                                              {65520.0F, 0x7c00},
                                              {-1e30F, 0xfc00},
                                              {0x1p-14F, 0x0400},
                                              {0x1.ff8p-15F, 0x03ff},
                                              {0x1.ffcp-15F, 0x0400},
                                              {0x1p-24F, 0x0001},
                                              {0x1p-25F, 0x0000},
                                              {0x1.8p-24F, 0x0002},
                                              {0x1.2p-25F, 0x0001},
                                              {-0x1p-24F, 0x8001}};
  for (const auto& [value, bits] : cases) EXPECT_EQ(half_bits(value), bits) << value;
  EXPECT_EQ(half_bits(std::numeric_limits<float>::quiet_NaN()) & 0x7fff, 0x7e00);
}

TEST(GgmlTypesTest, EveryHalfReadsBackAsItself) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::vector<float> values(all.size());
  read_floats(Array::of<uint16_t>(DType::kF16, {65536}, std::span<const uint16_t>(all)), 0, values);
  for (size_t i = 0; i < all.size(); ++i) {
    if (std::isnan(values[i])) continue;
    ASSERT_EQ(half_bits(values[i]), all[i]) << i;
  }
}

TEST(GgmlTypesTest, Bfloat16RoundsTiesToEvenAndKeepsNaN) {
  EXPECT_EQ(bfloat_bits(std::bit_cast<float>(0x3f808000U)), 0x3f80);
  EXPECT_EQ(bfloat_bits(std::bit_cast<float>(0x3f818000U)), 0x3f82);
  EXPECT_EQ(bfloat_bits(std::bit_cast<float>(0x3f808001U)), 0x3f81);
  EXPECT_EQ(bfloat_bits(std::bit_cast<float>(0x7f800001U)), 0x7fc0);
  EXPECT_EQ(stored({1, -2}, GgmlType::kBF16), "\x80\x3f\0\xc0"s);
}

TEST(GgmlTypesTest, SourcesOfEveryFloatingPointTypeAreRead) {
  const std::array<uint16_t, 3> halves = {0x3c00, 0x3f80, 0xc000};
  std::vector<float> found(2);
  read_floats(Array::of<uint16_t>(DType::kBF16, {3}, std::span(halves)), 1, found);
  EXPECT_EQ(found, (std::vector<float>{1, -2}));
  const std::array<double, 2> doubles = {0.1, 3};
  read_floats(Array::of<double>(DType::kF64, {2}, std::span(doubles)), 0, found);
  EXPECT_EQ(found, (std::vector<float>{0.1F, 3}));
  EXPECT_EQ(format_fault([&] { read_floats(Array::label(3), 0, found); }),
            "has the type I64, which is no floating-point type");
}

}  // namespace
}  // namespace accel
