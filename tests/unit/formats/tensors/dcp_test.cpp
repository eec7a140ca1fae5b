// Distributed checkpoints: assembly of chunks, and refused regions.

#include <gtest/gtest.h>

#include "core/base/text.h"
#include "formats/archive/zip.h"
#include "formats/tensors/dcp.h"
#include "formats/tensors/torch_file.h"
#include "tests/unit/formats/written.h"

namespace accel::dcp_test {
namespace {

using namespace std::string_literals;

Array floats(Shape shape, float first = 0) {
  Array out(DType::kF32, std::move(shape));
  for (float& value : out.mutable_as<float>()) value = first++;
  return out;
}

std::vector<float> values_of(const Array& array) {
  return {array.as<float>().begin(), array.as<float>().end()};
}

/// A mutable checkpoint in memory, with its chunks in "a.distcp".
struct Folder {
  DcpMetadata metadata;
  std::map<std::string, std::string> files = {{"a.distcp", ""}};

  /// Appends a torch file as a region of `name`.
  void keep(const std::string& name, const Shape& start, const Value& value) {
    std::string& file = files["a.distcp"];
    const std::string bytes =
        written([&](const ByteSink& sink) { write_torch_file(value, "archive", sink); });
    metadata.regions[{name, start}] = {"a.distcp", file.size(), bytes.size()};
    file += bytes;
  }

  /// Adds a chunk of the tensor "w".
  void part(const Shape& start, const Array& array) {
    metadata.tensors["w"].chunks.push_back({start, array.shape()});
    keep("w", start, array);
  }

  DcpState read() const {
    const std::string text = dcp_metadata_text(metadata);
    return read_dcp([&](const std::string& name) {
      if (name == ".metadata") return file_of(text);
      const auto found = files.find(name);
      if (found == files.end()) throw FormatError("no file '" + name + "'");
      return file_of(found->second);
    });
  }
  std::string fault() const {
    return format_fault([&] { read(); });
  }
};

Folder with_tensor(Shape shape) {
  Folder folder;
  folder.metadata.tensors["w"] = {DType::kF32, std::move(shape), {}};
  return folder;
}

Folder with_two_rows() {
  Folder folder = with_tensor({2, 2});
  folder.part({0, 0}, floats({1, 2}));
  folder.part({1, 0}, floats({1, 2}, 2));
  return folder;
}

DcpState back_from(const DcpState& state) {
  std::string data, metadata;
  write_dcp(
      state, [&](ByteSpan bytes) { data += as_text(bytes); },
      [&](ByteSpan bytes) { metadata += as_text(bytes); });
  return read_dcp(
      [&](const std::string& name) { return file_of(name == ".metadata" ? metadata : data); });
}

TEST(DcpTest, RoundTrips) {
  DcpState state;
  for (const DType type :
       {DType::kBool, DType::kU8, DType::kI8, DType::kI16, DType::kU16, DType::kF16, DType::kBF16,
        DType::kI32, DType::kU32, DType::kF32, DType::kI64, DType::kU64, DType::kF64}) {
    Array array(type, {2, 3});
    for (size_t i = 0; i < array.bytes(); ++i) array.mutable_data()[i] = std::byte(i % 2);
    state.tensors.push_back({"model."s + name_of(type), array});
  }
  state.tensors.push_back({"model.empty", Array(DType::kF32, {0, 5})});
  state.tensors.push_back({"model.scalar", Array::label(7)});
  state.objects = {{"betas", Value::Tuple{{0.9, 0.999}}}, {"none", Value()}};
  state.paths = {{"model.empty", {"model", "empty"}}, {"betas", {"betas", 0}}};
  const DcpState back = back_from(state);
  ASSERT_EQ(back.tensors.size(), state.tensors.size());
  for (const NamedArray& wrote : state.tensors) {
    const auto read = std::find_if(back.tensors.begin(), back.tensors.end(),
                                   [&](const NamedArray& t) { return t.name == wrote.name; });
    ASSERT_NE(read, back.tensors.end()) << wrote.name;
    EXPECT_EQ(read->array.type(), wrote.array.type());
    EXPECT_EQ(read->array.shape(), wrote.array.shape());
    EXPECT_TRUE(std::equal(wrote.array.data(), wrote.array.data() + wrote.array.bytes(),
                           read->array.data()));
  }
  ASSERT_EQ(back.objects.size(), 2U);
  EXPECT_EQ(back.objects[0].first, "betas");
  EXPECT_EQ(*back.objects[0].second.as<Value::Tuple>()->items[1].as<double>(), 0.999);
  EXPECT_TRUE(back.objects[1].second.as<Value::None>());
  EXPECT_EQ(back.paths.size(), 17U);
  ASSERT_EQ(back.paths.at("model.empty").size(), 2U);
  ASSERT_EQ(back.paths.at("betas").size(), 2U);
  EXPECT_EQ(*back.paths.at("model.empty")[1].as<std::string>(), "empty");
  EXPECT_EQ(*back.paths.at("betas")[1].as<int64_t>(), 0);
  EXPECT_EQ(*back.paths.at("none")[0].as<std::string>(), "none");
}

TEST(DcpTest, ANameThatComesTwiceIsNotWritten) {
  const ByteSink nowhere = [](ByteSpan) {};
  DcpState state = {.tensors = {{"a", Array::label(1)}}, .objects = {{"a", 1}}, .paths = {}};
  try {
    write_dcp(state, nowhere, nowhere);
    FAIL() << "it was written";
  } catch (const std::invalid_argument& bug) {
    EXPECT_STREQ(bug.what(), "'a' is twice in a distributed checkpoint");
  }
}

TEST(DcpTest, ATensorInOnePartIsAViewOfItsFile) {
  DcpState state;
  state.tensors.push_back({"a", floats({3})});
  std::string data, metadata;
  write_dcp(
      state, [&](ByteSpan bytes) { data += as_text(bytes); },
      [&](ByteSpan bytes) { metadata += as_text(bytes); });
  // A map begins at a page, which a string does not.
  Array memory(DType::kU8, {static_cast<int64_t>(data.size())});
  std::copy(data.begin(), data.end(), memory.mutable_as<char>().begin());
  const SharedBytes mapped = {{memory.data(), memory.bytes()}, memory.owner()};
  const DcpState back = read_dcp(
      [&](const std::string& name) { return name == ".metadata" ? file_of(metadata) : mapped; });
  const std::byte* start = back.tensors[0].array.data();
  EXPECT_TRUE(start > memory.data() && start < memory.data() + memory.bytes());
  EXPECT_EQ(back.tensors[0].array.owner(), memory.owner());
}

TEST(DcpTest, PartsAreAssembledOnEveryAxis) {
  Folder rows = with_tensor({3, 2});
  rows.part({2, 0}, floats({1, 2}, 4));
  rows.part({0, 0}, floats({2, 2}));
  EXPECT_EQ(values_of(rows.read().tensors[0].array), (std::vector<float>{0, 1, 2, 3, 4, 5}));

  Folder columns = with_tensor({2, 3});
  columns.part({0, 0}, floats({2, 1}));
  columns.part({0, 1}, floats({2, 2}, 10));
  EXPECT_EQ(values_of(columns.read().tensors[0].array), (std::vector<float>{0, 10, 11, 1, 12, 13}));

  // Around a hole in the middle: not separable along an axis.
  Folder wheel = with_tensor({3, 3});
  wheel.part({0, 0}, floats({1, 2}, 10));
  wheel.part({0, 2}, floats({2, 1}, 20));
  wheel.part({2, 1}, floats({1, 2}, 30));
  wheel.part({1, 0}, floats({2, 1}, 40));
  wheel.part({1, 1}, floats({1, 1}, 50));
  EXPECT_EQ(values_of(wheel.read().tensors[0].array),
            (std::vector<float>{10, 11, 20, 40, 50, 21, 41, 30, 31}));

  Folder deep = with_tensor({2, 2, 2});
  deep.part({0, 1, 0}, floats({2, 1, 2}, 10));
  deep.part({0, 0, 0}, floats({2, 1, 2}));
  EXPECT_EQ(values_of(deep.read().tensors[0].array),
            (std::vector<float>{0, 1, 10, 11, 2, 3, 12, 13}));
}

TEST(DcpTest, RanksMayHoldNothingOfATensor) {
  Folder folder = with_two_rows();
  folder.metadata.tensors["w"].chunks.push_back({{2, 0}, {0, 2}});
  EXPECT_EQ(values_of(folder.read().tensors[0].array), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(with_tensor({0, 3}).read().tensors[0].array.shape(), (Shape{0, 3}));
}

TEST(DcpTest, PartsThatDoNotCoverOnceAreRefused) {
  Folder gap = with_tensor({3, 2});
  gap.part({0, 0}, floats({1, 2}));
  gap.part({2, 0}, floats({1, 2}));
  EXPECT_EQ(gap.fault(), "'w': its chunks have 4 elements, its shape [3, 2] has 6");
  EXPECT_EQ(with_tensor({}).fault(), "'w': its chunks have 0 elements, its shape [] has 1");

  Folder twice = with_tensor({2, 2});
  twice.part({0, 0}, floats({1, 2}));
  twice.part({0, 1}, floats({2, 1}));
  EXPECT_EQ(twice.fault(), "'w': its chunks overlap");

  Folder outside = with_tensor({2, 2});
  outside.part({1, 0}, floats({2, 2}));
  EXPECT_EQ(outside.fault(),
            "'w': its chunk of shape [2, 2] at [1, 0] is outside its shape [2, 2]");
  outside = with_tensor({2, 2});
  outside.part({0}, floats({2}));
  EXPECT_EQ(outside.fault(), "'w': its chunk of shape [2] at [0] is outside its shape [2, 2]");
  outside = with_tensor({2, 2});
  outside.part({INT64_MAX, 0}, floats({1, 2}));
  EXPECT_EQ(
      outside.fault(),
      "'w': its chunk of shape [1, 2] at [9223372036854775807, 0] is outside its shape [2, 2]");
}

TEST(DcpTest, ClaimsBeyondTheFilesAreRefused) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  Folder folder = with_tensor({kHuge, kHuge});
  EXPECT_EQ(folder.fault(), "'w': its shape [1099511627776, 1099511627776] is too large");
  folder = with_tensor({kHuge});
  folder.part({0}, floats({2}));
  folder.metadata.tensors["w"].chunks[0].sizes = {kHuge};
  EXPECT_EQ(folder.fault(),
            "'w': its chunk at [0] is F32 [2], '.metadata' has F32 [1099511627776]");
  folder = with_tensor({1, kHuge});
  folder.metadata.tensors["w"].chunks = {{{0, 0}, {0, kHuge}}, {{0, 0}, {1, kHuge}}};
  EXPECT_EQ(folder.fault(), "'w': '.metadata' has no region for its chunk at [0, 0]");
}

TEST(DcpTest, PartsOfAnotherKindAreRefused) {
  Folder type = with_two_rows();
  type.metadata.tensors["w"].type = DType::kI32;
  EXPECT_EQ(type.fault(), "'w': its chunk at [0, 0] is F32 [1, 2], '.metadata' has I32 [1, 2]");

  Folder object = with_tensor({1});
  object.keep("w", {0}, "text");
  object.metadata.tensors["w"].chunks = {{{0}, {1}}};
  EXPECT_EQ(object.fault(), "'w': its region does not hold a tensor");

  Folder missing;
  missing.metadata.objects = {"step"};
  EXPECT_EQ(missing.fault(), "'step': '.metadata' has no region");
}

TEST(DcpTest, RegionsOutsideTheirFilesAreRefused) {
  Folder folder = with_two_rows();
  DcpRegion& region = folder.metadata.regions.at({"w", {1, 0}});
  const DcpRegion right = region;
  const std::string size = std::to_string(folder.files["a.distcp"].size());
  const auto outside = [&] {
    return text("'a.distcp' has {} bytes, '.metadata' has a region of {} bytes at {}", size,
                region.bytes, region.offset);
  };
  region.bytes += 1;
  EXPECT_EQ(folder.fault(), outside());
  region = {"a.distcp", INT64_MAX, INT64_MAX};
  EXPECT_EQ(folder.fault(), outside());
  region = {"a.distcp", right.offset - 1, right.bytes};
  EXPECT_EQ(folder.fault(),
            "'a.distcp' has overlapping regions at byte " + std::to_string(right.offset - 1));
  region = {"b.distcp", right.offset, right.bytes};
  EXPECT_EQ(folder.fault(), "no file 'b.distcp'");
  region = {"a.distcp", right.offset, right.bytes - 1};
  EXPECT_EQ(folder.fault(), "'w': not a zip archive: the end record is missing");
  for (const std::string name : {"../a.distcp", "/a.distcp", ".metadata", ""}) {
    region = {name, right.offset, right.bytes};
    EXPECT_EQ(folder.fault(),
              "'.metadata': 'w': its file '" + name + "' is not a file name in the folder");
  }
}

TEST(DcpTest, EveryTruncationIsRefused) {
  DcpState state;
  state.tensors.push_back({"a", floats({3})});
  state.objects.emplace_back("b", 1);
  std::string data, metadata;
  write_dcp(
      state, [&](ByteSpan bytes) { data += as_text(bytes); },
      [&](ByteSpan bytes) { metadata += as_text(bytes); });
  const auto fault = [&](size_t keep, size_t keep_data) {
    return format_fault([&] {
      read_dcp([&](const std::string& name) {
        return file_of(name == ".metadata" ? metadata.substr(0, keep) : data.substr(0, keep_data));
      });
    });
  };
  EXPECT_EQ(fault(metadata.size(), data.size()), "");
  for (size_t keep = 0; keep < metadata.size(); ++keep) EXPECT_NE(fault(keep, data.size()), "");
  for (size_t keep = 0; keep < data.size(); keep += 7) EXPECT_NE(fault(metadata.size(), keep), "");
}

TEST(DcpTest, ManyObjectsShareOneBudget) {
  // Each has one list a hundred times: kilobytes that expand to megabytes.
  std::string pickle = "\x80\x02](" + std::string(1000, 'N') + "eq" + '\0' + "(";
  for (int i = 0; i < 100; ++i) pickle += "h"s + '\0';
  pickle += "t\x86.";
  const std::string bytes = written([&](const ByteSink& sink) {
    ZipWriter zip(sink);
    zip.add("archive/data.pkl", as_bytes(pickle));
    zip.add("archive/version", as_bytes("3\n"));
    zip.finish();
  });
  Folder folder;
  for (int i = 0; i < 10; ++i) {
    const std::string name = "object" + std::to_string(i);
    std::string& file = folder.files["a.distcp"];
    folder.metadata.objects.push_back(name);
    folder.metadata.regions[{name, {}}] = {"a.distcp", file.size(), bytes.size()};
    file += bytes;
  }
  EXPECT_EQ(folder.fault(),
            "'object3': the folder expands to far more memory than the file's size");
}

}  // namespace
}  // namespace accel::dcp_test
