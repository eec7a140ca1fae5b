// safetensors: same bytes as Hugging Face's library, and refused headers.
#include "formats/tensors/safetensors.h"

#include <gtest/gtest.h>

#include "formats/tensors/tensor_source.h"
#include "tests/unit/formats/written.h"

namespace accel::safetensors_test {
namespace {

std::string file_with(const std::string& header, const std::string& data = "") {
  std::string out;
  put_little<uint64_t>(out, header.size());
  return out + header + data;
}

std::string saved(const std::vector<NamedArray>& tensors) {
  return written([&](const ByteSink& sink) { write_safetensors(tensors, sink); });
}

std::string fault_of(const std::string& bytes) {
  return format_fault([&] { read_safetensors(file_of(bytes)); });
}

NamedArray zeros(const std::string& name, DType type, Shape shape = {2}) {
  Array array(type, std::move(shape));
  std::fill_n(array.mutable_data(), array.bytes(), std::byte{0});
  return {name, array};
}

TEST(SafetensorsTest, BytesAreThoseOfTheReferenceLibrary) {
  // safetensors 0.8.0, save_file of two zeros of each type.
  const std::string header =
      R"({"__metadata__":{"format":"pt"},)"
      R"("a_uint64":{"dtype":"U64","shape":[2],"data_offsets":[0,16]},)"
      R"("a_int64":{"dtype":"I64","shape":[2],"data_offsets":[16,32]},)"
      R"("a_float64":{"dtype":"F64","shape":[2],"data_offsets":[32,48]},)"
      R"("a_float32":{"dtype":"F32","shape":[2],"data_offsets":[48,56]},)"
      R"("a_uint32":{"dtype":"U32","shape":[2],"data_offsets":[56,64]},)"
      R"("a_int32":{"dtype":"I32","shape":[2],"data_offsets":[64,72]},)"
      R"("a_bfloat16":{"dtype":"BF16","shape":[2],"data_offsets":[72,76]},)"
      R"("a_float16":{"dtype":"F16","shape":[2],"data_offsets":[76,80]},)"
      R"("a_uint16":{"dtype":"U16","shape":[2],"data_offsets":[80,84]},)"
      R"("a_int16":{"dtype":"I16","shape":[2],"data_offsets":[84,88]},)"
      R"("a_int8":{"dtype":"I8","shape":[2],"data_offsets":[88,90]},)"
      R"("a_uint8":{"dtype":"U8","shape":[2],"data_offsets":[90,92]},)"
      R"("a_bool":{"dtype":"BOOL","shape":[2],"data_offsets":[92,94]}}      )";
  ASSERT_EQ(header.size(), 840U);
  EXPECT_EQ(saved({zeros("a_bool", DType::kBool), zeros("a_uint8", DType::kU8),
                   zeros("a_int8", DType::kI8), zeros("a_int16", DType::kI16),
                   zeros("a_uint16", DType::kU16), zeros("a_float16", DType::kF16),
                   zeros("a_bfloat16", DType::kBF16), zeros("a_int32", DType::kI32),
                   zeros("a_uint32", DType::kU32), zeros("a_float32", DType::kF32),
                   zeros("a_int64", DType::kI64), zeros("a_uint64", DType::kU64),
                   zeros("a_float64", DType::kF64)}),
            file_with(header, std::string(94, '\0')));
}

TEST(SafetensorsTest, SourcesAreReadOneAtATime) {
  std::vector<NamedArray> arrays;
  std::vector<TensorSource> sources;
  std::weak_ptr<const void> last;
  for (const char* name : {"b", "a", "c"}) {
    arrays.push_back(zeros(name, DType::kF32, {3, 2}));
    sources.push_back({name, DType::kF32, {3, 2}, [&last] {
                         EXPECT_TRUE(last.expired());
                         Array array = zeros("", DType::kF32, {3, 2}).array;
                         last = array.owner();
                         return array;
                       }});
  }
  EXPECT_EQ(written([&](const ByteSink& sink) { write_safetensors(sources, sink); }),
            saved(arrays));
  EXPECT_TRUE(last.expired());
}

TEST(SafetensorsTest, TensorsOfOneTypeAreSortedByName) {
  const SafetensorsFile file = read_safetensors(
      file_of(saved({zeros("b", DType::kF32), zeros("a", DType::kF32), zeros("c", DType::kI64)})));
  ASSERT_EQ(file.tensors.size(), 3U);
  EXPECT_EQ(file.tensors[0].name + file.tensors[1].name + file.tensors[2].name, "cab");
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
}

TEST(SafetensorsTest, ValuesShapesAndOddNamesComeBack) {
  const float values[] = {1.5F, -2, 0.25F, 7, 8, 9};
  const std::string name = "a \"quoted\" \\ näme\n";
  const SafetensorsFile file =
      read_safetensors(file_of(saved({{name, Array::of<float>(DType::kF32, {3, 1, 2}, values)},
                                      {"scalar", Array::label(-5)},
                                      {"empty", Array(DType::kF64, {0, 4})}})));
  std::map<std::string, Array> tensors;
  for (const auto& [key, array] : file.tensors) tensors[key] = array;
  EXPECT_EQ(tensors.at(name).shape(), (Shape{3, 1, 2}));
  EXPECT_TRUE(
      std::equal(std::begin(values), std::end(values), tensors.at(name).as<float>().begin()));
  EXPECT_EQ(tensors.at("scalar").shape(), Shape());
  EXPECT_EQ(tensors.at("scalar").as<int64_t>()[0], -5);
  EXPECT_EQ(tensors.at("empty").shape(), (Shape{0, 4}));
}

TEST(SafetensorsTest, WhatOthersMayWriteIsRead) {
  const std::string one = R"("dtype":"U8","shape":[1],"data_offsets":)";
  const std::string accepted[] = {
      file_with("{}"),
      file_with("  {}   "),
      file_with(R"({"b":{)" + one + R"([1,2]},"a":{)" + one + R"([0,1]}})", "xy"),
      file_with(R"({"a":{"note":[1,{}],)" + one + R"([0,1]}})", "x"),
      file_with(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})"),
      file_with(R"({"__metadata__":{}})"),
  };
  for (const std::string& bytes : accepted) EXPECT_EQ(fault_of(bytes), "") << bytes;
}

TEST(SafetensorsTest, EveryLieOfAHeaderIsRefused) {
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return file_with(R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" +
                         offsets + "}}",
                     "abcd");
  };
  const std::string byte = R"({"dtype":"U8","shape":[1],"data_offsets":)";
  const std::pair<std::string, std::string> refused[] = {
      {"", "the file ends early: 8 more bytes wanted, 0 are left"},
      {"\x10", "the file ends early: 8 more bytes wanted, 1 are left"},
      {file_with("{}").substr(0, 9), "the file ends early: 2 more bytes wanted, 1 are left"},
      {std::string("\0\0\0\1\0\0\0\0", 8) + "{}",
       "the file ends early: 16777216 more bytes wanted, 2 are left"},
      {std::string("\1\0\0\1\0\0\0\0", 8) + "{}",
       "the header claims 16777217 bytes, at most 16777216 wanted"},
      {std::string(8, '\xff'),
       "the header claims 18446744073709551615 bytes, at most 16777216 wanted"},
      {file_with("{"), "the header is not JSON"},
      {file_with("{} x"), "the header is not JSON"},
      {file_with(std::string("{}\0", 3)), "the header has a NUL byte"},
      {file_with("{\"\xff\":{}}"), "the header is not JSON"},
      {file_with("[]"), "the header is not a JSON object"},
      {file_with(R"({"a":[[[[[[1]]]]]]})"), "the header is nested too deeply"},
      {file_with(R"({"w":)" + byte + R"([0,1]},"w":)" + byte + "[1,2]}}", "xy"),
       "the header has \"w\" twice"},
      {file_with(R"({"w":1})"), "tensor 'w': its entry is not an object"},
      {file_with(R"({"w":{"shape":[1],"data_offsets":[0,1]}})", "x"),
       "tensor 'w': 'dtype' is not a string"},
      {tensor("\"F8_E4M3\"", "[4]", "[0,4]"), "tensor 'w': the type 'F8_E4M3' is not supported"},
      {tensor("\"F32\"", "1", "[0,4]"), "tensor 'w': 'shape' is not a list"},
      {tensor("\"F32\"", "[-1]", "[0,4]"),
       "tensor 'w': 'shape' has an item that is not a non-negative integer"},
      {tensor("\"F32\"", "[1.0]", "[0,4]"),
       "tensor 'w': 'shape' has an item that is not a non-negative integer"},
      {tensor("\"F32\"", "[18446744073709551616]", "[0,4]"),
       "tensor 'w': 'shape' has an item that is not a non-negative integer"},
      {tensor("\"F32\"", "[18446744073709551615]", "[0,4]"), "tensor 'w': its shape is too large"},
      {tensor("\"F32\"", "[4611686018427387904,4]", "[0,4]"), "tensor 'w': its shape is too large"},
      {tensor("\"F32\"", "[2]", "[0,4]"),
       "tensor 'w': its offsets span 4 bytes, its shape and type need 8"},
      {tensor("\"F32\"", "[1]", "[4,0]"), "tensor 'w': its offsets are not a range"},
      {tensor("\"F32\"", "[1]", "[0,4,8]"), "tensor 'w': its offsets are not a range"},
      {tensor("\"U8\"", "[3]", "[1,4]"), "tensor 'w' begins at byte 1, the previous one ends at 0"},
      {tensor("\"U8\"", "[3]", "[0,3]"), "the tensors end at byte 3, the data at 4"},
      {tensor("\"U8\"", "[5]", "[0,5]"), "the tensors end at byte 5, the data at 4"},
      {file_with(R"({"a":)" + byte + R"([0,1]},"b":)" + byte + "[0,1]}}", "x"),
       "tensor 'b' begins at byte 0, the previous one ends at 1"},
      {file_with(R"({"a":)" + byte + R"([0,1]},"b":)" + byte + "[2,3]}}", "xyz"),
       "tensor 'b' begins at byte 2, the previous one ends at 1"},
      {file_with(R"({"__metadata__":{"a":1}})"), "'__metadata__' has a value that is not a string"},
      {file_with(R"({"__metadata__":[]})"), "'__metadata__' is not an object"},
  };
  for (const auto& [bytes, message] : refused) EXPECT_EQ(fault_of(bytes), message) << bytes;
}

TEST(SafetensorsTest, EveryTruncationIsRefused) {
  const std::string bytes = saved({zeros("a", DType::kF32), zeros("b", DType::kU8)});
  for (size_t keep = 0; keep < bytes.size(); ++keep) {
    EXPECT_NE(fault_of(bytes.substr(0, keep)), "") << keep;
  }
}

TEST(SafetensorsTest, NamesThatCannotBeWrittenAreBugs) {
  const auto refusal = [](const std::vector<NamedArray>& tensors) -> std::string {
    try {
      saved(tensors);
    } catch (const std::invalid_argument& bug) {
      return bug.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({zeros("a", DType::kF32), zeros("a", DType::kU8)}),
            "'a' is twice in a safetensors file, or reserved");
  EXPECT_EQ(refusal({zeros("__metadata__", DType::kF32)}),
            "'__metadata__' is twice in a safetensors file, or reserved");
  EXPECT_THROW(saved({zeros("\xff", DType::kF32)}), std::invalid_argument);
}

}  // namespace
}  // namespace accel::safetensors_test
