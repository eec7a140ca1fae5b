#include "formats/tensors/npy.h"

#include <cstring>

#include <gtest/gtest.h>

#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::npy_test {
namespace {

std::string npy(std::string header, const std::string& values, char version = 1) {
  const size_t length = version == 1 ? 2 : 4;
  header.resize((8 + length + header.size() + 64) / 64 * 64 - 8 - length, ' ');
  header.back() = '\n';
  std::string out = std::string("\x93NUMPY") + version + '\0';
  for (size_t i = 0; i < length; ++i) out += static_cast<char>(header.size() >> 8 * i & 0xff);
  return out + header + values;
}

std::string dictionary(const std::string& descr, const std::string& shape,
                       const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

std::string npy_complaint(const std::string& file) {
  return complaint([&] { parse_npy(shared_bytes(file), "a.npy"); });
}

TEST(NpyTest, EveryVersionIsRead) {
  for (const char version : {'\1', '\2', '\3'}) {
    const std::string file = npy(dictionary("|u1", "(2, 3)"), "abcdef", version);
    const Array array = parse_npy(shared_bytes(file), "a.npy");
    EXPECT_EQ(array.type(), DType::kU8);
    EXPECT_EQ(array.shape(), (Shape{2, 3}));
    EXPECT_EQ(array.as<uint8_t>()[5], 'f');
  }
}

TEST(NpyTest, EveryNumberTypeIsRead) {
  const std::pair<const char*, DType> types[] = {
      {"|b1", DType::kBool}, {"|i1", DType::kI8},  {"<i2", DType::kI16}, {"<u2", DType::kU16},
      {"<f2", DType::kF16},  {"<i4", DType::kI32}, {"<u4", DType::kU32}, {"<f4", DType::kF32},
      {"<i8", DType::kI64},  {"<u8", DType::kU64}, {"<f8", DType::kF64}, {"=f4", DType::kF32}};
  for (const auto& [descr, type] : types) {
    const std::string file = npy(dictionary(descr, "(3,)"), std::string(3 * size_of(type), '\1'));
    const Array array = parse_npy(shared_bytes(file), "a.npy");
    EXPECT_EQ(array.type(), type) << descr;
    EXPECT_EQ(array.shape(), Shape{3}) << descr;
  }
}

TEST(NpyTest, BigEndianIsSwapped) {
  const std::string file = npy(dictionary(">f4", "()"), "\x3f\xc0" + std::string(2, '\0'));
  const Array array = parse_npy(shared_bytes(file), "a.npy");
  EXPECT_EQ(array.shape(), Shape{});
  EXPECT_EQ(array.as<float>()[0], 1.5f);
}

TEST(NpyTest, ValuesAtOddPlacesAreCopied) {
  const std::string values = {'\0', '\0', '\xc0', '\x3f'};
  const std::string file = " " + npy(dictionary("<f4", "(1,)"), values);
  const SharedBytes shifted{bytes_of(file).subspan(1), nullptr};
  const Array array = parse_npy(shifted, "a.npy");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(array.data()) % 4, 0u);
  EXPECT_EQ(array.as<float>()[0], 1.5f);
}

TEST(NpyTest, OtherTypesAreRefused) {
  const std::string hint = "\nconvert it first: numpy.save(path, array.astype('float32'))";
  for (const char* descr : {"|O", "<U5", "|S3", "<c8", "<f16", "<m8[s]", "", "f4", "|V4"}) {
    EXPECT_EQ(
        npy_complaint(npy(dictionary(descr, "(1,)"), "abcd")),
        std::string("'a.npy' has values of type '") + descr + "', a number type wanted" + hint);
  }
}

TEST(NpyTest, FortranOrderIsRefusedWhereItMatters) {
  EXPECT_EQ(npy_complaint(npy(dictionary("|u1", "(2, 3)", "True"), "abcdef")),
            "'a.npy' is in Fortran order, which is not supported\n"
            "save it again: numpy.save(path, numpy.ascontiguousarray(array))");
  EXPECT_EQ(npy_complaint(npy(dictionary("|u1", "(1, 6)", "True"), "abcdef")), "");
}

TEST(NpyTest, ClaimsThatTheFileDoesNotHoldAreRefused) {
  const std::string hint = "\nthe file is truncated or damaged: copy it again";
  EXPECT_EQ(npy_complaint(npy(dictionary("<f4", "(2,)"), "abcdefg")),
            "'a.npy' claims [2] values of type F32, but has 7 bytes" + hint);
  EXPECT_EQ(
      npy_complaint(npy(dictionary("<f8", "(1099511627776, 1099511627776)"), "abc")),
      "'a.npy' claims [1099511627776, 1099511627776] values of type F64, but has 3 bytes" + hint);
}

TEST(NpyTest, FilesThatEndInTheirHeaderAreRefused) {
  const std::string file = npy(dictionary("|u1", "(2,)"), "", '\2');
  for (const size_t size : {11U, 20U}) {
    EXPECT_TRUE(
        npy_complaint(file.substr(0, size)).starts_with("'a.npy' ends inside its .npy header"))
        << size;
  }
}

TEST(NpyTest, OtherLiteralsAreRefused) {
  const char* const headers[] = {
      "",
      "{",
      "{}",
      "{'descr': '<f4'}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'other': 1}",
      "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
      "{'descr': '<f\\x34', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} + 1",
      "__import__('os')"};
  for (const char* header : headers) {
    EXPECT_NE(npy_complaint(npy(header, "abcd")).find("has an invalid .npy header"),
              std::string::npos)
        << header;
  }
}

TEST(NpyTest, DamagedStartsAreRefused) {
  const std::string good = npy(dictionary("<f4", "(1,)"), "abcd");
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(npy_complaint(good.substr(0, size)), "") << size;
  }
  EXPECT_EQ(npy_complaint("hello, this is text"),
            "'a.npy' is not a .npy file: it does not start with \\x93NUMPY");
  std::string newer = good;
  newer[6] = 4;
  EXPECT_EQ(npy_complaint(newer), "'a.npy' has .npy version 4, 1 to 3 wanted");
  EXPECT_EQ(npy_complaint(npy(dictionary("<f4", "(1,)") + std::string(5000, ' '), "abcd")),
            "'a.npy' has a .npy header of 5110 bytes, at most 4096 wanted");
}

TEST(NpyTest, FilesAreMapped) {
  const TempFolder folder;
  const std::string path = folder.write("a.npy", npy(dictionary("<i4", "(1,)"), "\1\2\3\4"));
  EXPECT_EQ(read_npy(path).as<int32_t>()[0], 0x04030201);
}

}  // namespace
}  // namespace accel::npy_test
