// PyTorch files: round trip of arrays in value trees, and refused files.
#include "formats/tensors/torch_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "formats/archive/zip.h"
#include "tests/unit/formats/written.h"

namespace accel::torch_file_test {
namespace {

using namespace std::string_literals;

std::string saved(const Value& value) {
  return written([&](const ByteSink& sink) { write_torch_file(value, "optimizer", sink); });
}

/// A torch file around any pickle, with one storage of six floats 0..5 named "0".
std::string with_pickle(const std::string& pickle, const std::string& byteorder = "little") {
  const float values[] = {0, 1, 2, 3, 4, 5};
  return written([&](const ByteSink& sink) {
    ZipWriter zip(sink);
    zip.add("x/data.pkl", as_bytes(pickle));
    zip.add("x/byteorder", as_bytes(byteorder));
    zip.add("x/data/0", std::as_bytes(std::span(values)));
    zip.add("x/version", as_bytes("3\n"));
    zip.finish();
  });
}

/// A tensor in a pickle; valid by default.
struct Rebuild {
  std::string storage = "FloatStorage";
  std::string key = "0";
  std::string kind = "storage";
  int64_t elements = 6;
  int64_t offset = 0;
  Shape sizes = {2, 3};
  Shape strides = {3, 1};

  Value call() const {
    Value::Tuple size, stride;
    for (const int64_t n : sizes) size.items.emplace_back(n);
    for (const int64_t n : strides) stride.items.emplace_back(n);
    return Value::Call{
        {"torch._utils", "_rebuild_tensor_v2"},
        {Value::Persistent{{kind, Value::Global{"torch", storage}, key, "cuda:0", elements}},
         offset, size, stride, false, Value::Call{{"collections", "OrderedDict"}, {}}}};
  }
  std::string file() const { return with_pickle(write_pickle(call())); }
};

std::vector<float> floats_of(const Value& value) {
  const auto* array = value.as<Array>();
  if (!array) return {};
  return {array->as<float>().begin(), array->as<float>().end()};
}

std::string fault_of(const std::string& bytes) {
  return format_fault([&] { read_torch_file(file_of(bytes)); });
}

TEST(TorchFileTest, EveryTypeComesBackInATree) {
  Value::Dict dict;
  for (const DType type :
       {DType::kBool, DType::kU8, DType::kI8, DType::kI16, DType::kU16, DType::kF16, DType::kBF16,
        DType::kI32, DType::kU32, DType::kF32, DType::kI64, DType::kU64, DType::kF64}) {
    Array array(type, {2, 3});
    for (size_t i = 0; i < array.bytes(); ++i) array.mutable_data()[i] = std::byte(i % 2);
    dict.items.emplace_back(name_of(type), Value::List{{array}});
  }
  const Value back = read_torch_file(file_of(saved(dict)));
  for (const auto& [key, list] : dict.items) {
    const auto& name = *key.as<std::string>();
    const Array& wrote = *list.as<Value::List>()->items[0].as<Array>();
    const Array* read = back.find(name)->as<Value::List>()->items[0].as<Array>();
    ASSERT_TRUE(read) << name;
    EXPECT_EQ(read->type(), wrote.type());
    EXPECT_EQ(read->shape(), wrote.shape());
    EXPECT_TRUE(std::equal(wrote.data(), wrote.data() + wrote.bytes(), read->data())) << name;
  }
}

TEST(TorchFileTest, ManySmallTensorsComeBack) {
  constexpr int64_t kTensors = 100'000;
  Value::Dict dict;
  for (int64_t i = 0; i < kTensors; ++i) dict.items.emplace_back(i, Array::label(i));
  const Value back = read_torch_file(file_of(saved(dict)));
  const auto& items = back.as<Value::Dict>()->items;
  ASSERT_EQ(items.size(), kTensors);
  EXPECT_EQ(items.back().second.as<Array>()->as<int64_t>()[0], kTensors - 1);
}

TEST(TorchFileTest, TheArchiveHasPyTorchsEntries) {
  const std::string bytes = saved(Value::List{{Array::label(3)}});
  const ZipReader zip(as_bytes(bytes));
  std::string names;
  for (const auto& [name, data] : zip.entries()) names += name + " ";
  EXPECT_EQ(names,
            "optimizer/.format_version optimizer/.storage_alignment optimizer/byteorder "
            "optimizer/data.pkl optimizer/data/0 optimizer/version ");
  EXPECT_EQ(as_text(zip.entries().at("optimizer/version")), "3\n");
  EXPECT_EQ(as_text(zip.entries().at("optimizer/data.pkl")),
            "\x80\x02](ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nLongStorage\n"
            "X\x01\0\0\0"
            "0X\x03\0\0\0cpuK\x01tQK\0))\x89"
            "ccollections\nOrderedDict\n)RtRe."s);
}

TEST(TorchFileTest, ScalarsAndEmptyTensorsComeBack) {
  const Value back = read_torch_file(
      file_of(saved(Value::Tuple{{Array::label(-1), Array(DType::kF32, {0, 5}), "x"}})));
  const auto& items = back.as<Value::Tuple>()->items;
  EXPECT_EQ(items[0].as<Array>()->shape(), Shape());
  EXPECT_EQ(items[0].as<Array>()->as<int64_t>()[0], -1);
  EXPECT_EQ(items[1].as<Array>()->shape(), (Shape{0, 5}));
}

TEST(TorchFileTest, ViewsAreFollowed) {
  const std::pair<Rebuild, std::vector<float>> cases[] = {
      {{}, {0, 1, 2, 3, 4, 5}},
      {{.offset = 2, .sizes = {3}, .strides = {1}}, {2, 3, 4}},
      {{.sizes = {3, 2}, .strides = {1, 3}}, {0, 3, 1, 4, 2, 5}},
      {{.offset = 5, .sizes = {}, .strides = {}}, {5}},
      {{.sizes = {2, 2}, .strides = {0, 1}}, {0, 1, 0, 1}},
      {{.sizes = {1, 6}, .strides = {77, 1}}, {0, 1, 2, 3, 4, 5}},
      {{.sizes = {0, 9}, .strides = {9, 1}}, {}},
      {{.sizes = Shape(64, 1), .strides = Shape(64, 1)}, {0}},
  };
  for (const auto& [rebuild, values] : cases) {
    EXPECT_EQ(floats_of(read_torch_file(file_of(rebuild.file()))), values);
  }
}

TEST(TorchFileTest, ContiguousTensorsAreNotCopied) {
  const SharedBytes file = file_of(Rebuild{}.file());
  const Value value = read_torch_file(file);
  const std::byte* data = value.as<Array>()->data();
  EXPECT_TRUE(data > file.view.data() && data < file.view.data() + file.view.size());
  EXPECT_EQ(value.as<Array>()->owner(), file.owner);
}

TEST(TorchFileTest, AViewNeedBeAlignedOnlyWhereThatIsAskedFor) {
  const std::string shifted = "x" + Rebuild{}.file();
  const SharedBytes file = file_of(shifted);
  const SharedBytes part = {file.view.subspan(1), file.owner};
  MemoryBudget budget(shifted.size(), "the file");
  const auto is_view = [&](const Value& value) {
    const std::byte* data = value.as<Array>()->data();
    return data > file.view.data() && data < file.view.data() + file.view.size();
  };
  EXPECT_FALSE(is_view(read_embedded_torch_file(part, budget, false)));
  EXPECT_TRUE(is_view(read_embedded_torch_file(part, budget, true)));
}

TEST(TorchFileTest, AParameterIsItsTensorAndASizeATuple) {
  const Value parameter =
      Value::Call{{"torch._utils", "_rebuild_parameter"}, {Rebuild{}.call(), true, Value::Dict{}}};
  EXPECT_EQ(floats_of(read_torch_file(file_of(with_pickle(write_pickle(parameter))))).size(), 6U);
  const Value size = Value::Call{{"torch", "Size"}, {Value::Tuple{{2, 3}}}};
  const Value read = read_torch_file(file_of(with_pickle(write_pickle(size))));
  ASSERT_TRUE(read.as<Value::Tuple>());
  EXPECT_EQ(read.as<Value::Tuple>()->items.size(), 2U);
}

TEST(TorchFileTest, TensorsOutsideTheirStorageAreRefused) {
  const std::string sizes_bad = "a tensor has an invalid size or stride";
  const auto outside = [](const std::string& shape) {
    return "a tensor of shape " + shape + " exceeds its storage of 6 elements";
  };
  constexpr int64_t kHuge = int64_t{1} << 62;
  const std::pair<Rebuild, std::string> refused[] = {
      {{.offset = 1}, outside("[2, 3]")},
      {{.sizes = {7}, .strides = {1}}, outside("[7]")},
      {{.sizes = {2, 3}, .strides = {4, 1}}, outside("[2, 3]")},
      {{.offset = kHuge, .sizes = {1}, .strides = {1}}, outside("[1]")},
      {{.sizes = {kHuge, 4}, .strides = {0, 0}}, outside("[4611686018427387904, 4]")},
      {{.sizes = {2}, .strides = {kHuge}}, outside("[2]")},
      {{.sizes = {3, 3}, .strides = {kHuge, kHuge}}, outside("[3, 3]")},
      {{.sizes = {7}, .strides = {0}}, outside("[7]")},
      {{.offset = -1}, sizes_bad},
      {{.sizes = {-2, 3}}, sizes_bad},
      {{.strides = {-3, 1}}, sizes_bad},
      {{.strides = {1}}, "a tensor lacks strides"},
      {{.sizes = Shape(65, 1), .strides = Shape(65, 1)},
       "a tensor has 65 dimensions, at most 64 wanted"},
      {{.key = "1"}, "storage '1' is missing"},
      {{.key = "../0"}, "storage '../0' is missing"},
      {{.kind = "module"}, "a tensor has no storage"},
      {{.elements = 7}, "storage '0' claims 7 elements in 24 bytes"},
      {{.elements = int64_t{1} << 62},
       "storage '0' claims 4611686018427387904 elements in 24 bytes"},
      {{.storage = "DoubleStorage"}, "storage '0' claims 6 elements in 24 bytes"},
      {{.storage = "ComplexFloatStorage"},
       "the pickle names 'torch.ComplexFloatStorage', which is not an allowed class"},
      {{.storage = "float32"}, "storage '0' has an unknown type"},
  };
  for (const auto& [rebuild, message] : refused) EXPECT_EQ(fault_of(rebuild.file()), message);
}

TEST(TorchFileTest, ManyViewsOfOneStorageCannotFillTheMemory) {
  Value::List list;
  for (int i = 0; i < 1000; ++i) list.items.push_back(Rebuild{.strides = {1, 2}}.call());
  std::string pickle = write_pickle(list);
  EXPECT_EQ(fault_of(with_pickle(pickle)), "");  // what the file pays for in its own size
  Rebuild big = {.elements = 100'000, .sizes = {1000, 100}, .strides = {1, 1000}};
  Value::List copies{std::vector<Value>(10, big.call())};
  pickle = write_pickle(copies);
  const std::string bytes = written([&](const ByteSink& sink) {
    ZipWriter zip(sink);
    zip.add("x/data.pkl", as_bytes(pickle));
    zip.add("x/data/0", as_bytes(std::string(400'000, '\0')));
    zip.add("x/version", as_bytes("3\n"));
    zip.finish();
  });
  EXPECT_EQ(fault_of(bytes), "the tensors take more memory than the file");
}

TEST(TorchFileTest, ArchivesThatAreNoTorchFilesAreRefused) {
  const auto archive = [](const std::vector<std::string>& names) {
    return written([&](const ByteSink& sink) {
      ZipWriter zip(sink);
      for (const std::string& name : names) zip.add(name, as_bytes("\x80\x02N."s));
      zip.finish();
    });
  };
  EXPECT_EQ(fault_of(archive({})), "the archive is empty");
  EXPECT_EQ(fault_of(archive({"x/version"})), "the archive has no 'x/data.pkl'");
  EXPECT_EQ(fault_of(archive({"x/data.pkl"})), "the archive has no 'x/version'");
  EXPECT_EQ(fault_of(archive({"data.pkl", "version"})), "the archive has no 'data.pkl/data.pkl'");
  EXPECT_EQ(fault_of(with_pickle("\x80\x02N."s, "big")), "the archive is not little-endian");
  EXPECT_EQ(fault_of("\x80\x02}q\0."s), "not a zip archive: the end record is missing");
}

/// Golden files of tests/interop/make_legacy_torch.py.
std::string golden(const std::string& name) {
  const char* source = std::getenv("ACCEL_SOURCE_DIR");
  std::ifstream file(std::string(source ? source : ".") + "/tests/unit/formats/golden/" + name,
                     std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(TorchFileTest, FilesOfTorchBefore16AreRead) {
  const std::string bytes = golden("legacy.bin");
  ASSERT_GT(bytes.size(), 100U);
  const Value value = read_torch_file(file_of(bytes));
  EXPECT_EQ(floats_of(*value.find("weight")), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(floats_of(*value.find("turned")), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(floats_of(*value.find("tied")), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  const auto* half = value.find("half")->as<Array>();
  ASSERT_TRUE(half);
  EXPECT_EQ(half->type(), DType::kF16);
  EXPECT_EQ(half->shape(), (Shape{3}));
  const auto* steps = value.find("steps")->as<Array>();
  ASSERT_TRUE(steps);
  EXPECT_EQ(steps->as<int64_t>()[0], 7);
  EXPECT_EQ(*value.find("epoch")->as<int64_t>(), 3);
  check_torch_file(file_of(bytes));
}

TEST(TorchFileTest, DamagedFilesOfTorchBefore16AreRefused) {
  const std::string bytes = golden("legacy.bin");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string out = bytes;
    const size_t at = out.find(from);
    EXPECT_NE(at, out.npos) << from;
    return out.replace(at, from.size(), to);
  };
  EXPECT_EQ(fault_of(changed("M\xe9\x03"s, "M\xea\x03"s)),
            "the file is of an unknown version of torch's old format");
  EXPECT_EQ(fault_of(changed("little_endian", "little_endiam")), "the file is not little-endian");
  EXPECT_EQ(fault_of(changed("\x06\0\0\0\0\0\0\0"s, "\xff\xff\xff\0\0\0\0\0"s)).substr(0, 9),
            "storage '");
  EXPECT_EQ(fault_of(bytes.substr(0, bytes.size() - 1)).substr(0, 9), "storage '");
  EXPECT_EQ(fault_of(changed("FloatStorage", "BlobXStorage")),
            "the pickle names 'torch.BlobXStorage', which is not an allowed class");
  EXPECT_EQ(fault_of(bytes.substr(0, 40)).substr(0, 10), "the pickle");
  std::string other = bytes;
  other[other.rfind("q\x03"
                    "e.") -
        1] = 'x';
  const std::string fault = fault_of(other);
  EXPECT_TRUE(fault.starts_with("storage '") && fault.ends_with("x' is of no tensor")) << fault;
  EXPECT_EQ(fault_of(changed("_rebuild_tensor_v2", "_rebuild_tensor_v9")),
            "the pickle names 'torch._utils._rebuild_tensor_v9', which is not an allowed class");
}

TEST(TorchFileTest, MisplacedStoragesAndShortCallsAreRefused) {
  EXPECT_EQ(fault_of(with_pickle(write_pickle(Value::Persistent{{"storage"}}))),
            "a storage appears outside a tensor");
  for (const char* name : {"_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter"}) {
    EXPECT_EQ(fault_of(with_pickle(write_pickle(Value::Call{{"torch._utils", name}, {}}))),
              "a tensor lacks arguments");
  }
  const Value::Call with_attributes = {{"torch._tensor", "_rebuild_from_type_v2"}, {}};
  EXPECT_EQ(fault_of(with_pickle(write_pickle(with_attributes))), "a tensor lacks arguments");
}

}  // namespace
}  // namespace accel::torch_file_test
