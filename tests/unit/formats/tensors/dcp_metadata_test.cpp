// `.metadata`: entries, and exact error messages.

#include <gtest/gtest.h>

#include "formats/tensors/dcp.h"
#include "tests/unit/formats/written.h"

namespace accel::dcp_metadata_test {
namespace {

constexpr auto kModule = "torch.distributed.checkpoint.metadata";

using Attributes = std::vector<std::pair<std::string, Value>>;

Value dict_of(const Attributes& items) {
  Value::Dict out;
  for (const auto& [name, value] : items) out.items.emplace_back(name, value);
  return out;
}

Value object_of(const std::string& name, const Value& state) {
  return Value::Call{{kModule, name}, {}, {state}};
}

Value size_of(const std::vector<Value>& sizes) {
  return Value::Call{{"torch", "Size"}, {Value::Tuple{sizes}}};
}

/// One tensor "w" of two floats and its region; valid by default.
struct HandMade {
  Value type = Value::Global{"torch", "float32"};
  Value layout = Value::Call{{"torch.serialization", "_get_layout"}, {"torch.strided"}};
  Value sizes = size_of({2});
  Value chunks = Value::List{{object_of(
      "ChunkStorageMetadata", dict_of({{"offsets", size_of({0})}, {"sizes", size_of({2})}}))}};
  Attributes info = {{"relative_path", "a"}, {"offset", 0}, {"length", 9}};
  Value index = dict_of({{"fqn", "w"}, {"index", 0}, {"offset", size_of({0})}});
  Value version = "1.0.0";
  Attributes more_entries = {};
  bool stored_twice = false;

  std::string bytes() const {
    const Value properties =
        object_of("TensorProperties", Value::Tuple{{type, layout, false, Value(), false}});
    Attributes entries = {
        {"w",
         object_of("TensorStorageMetadata",
                   dict_of({{"properties", properties}, {"size", sizes}, {"chunks", chunks}}))}};
    entries.insert(entries.end(), more_entries.begin(), more_entries.end());
    Value::Dict storage;
    for (int i = 0; i < (stored_twice ? 2 : 1); ++i) {
      storage.items.emplace_back(
          object_of("MetadataIndex", index),
          Value::Call{
              {"torch.distributed.checkpoint.filesystem", "_StorageInfo"}, {}, {dict_of(info)}});
    }
    return write_pickle(object_of("Metadata", dict_of({{"state_dict_metadata", dict_of(entries)},
                                                       {"storage_data", storage},
                                                       {"version", version}})),
                        4);
  }
  std::string fault() const {
    return format_fault([&] { read_dcp_metadata(as_bytes(bytes())); });
  }
};

TEST(DcpMetadataTest, PartsAndPlacesAreRead) {
  const DcpMetadata metadata = read_dcp_metadata(as_bytes(HandMade().bytes()));
  EXPECT_EQ(metadata.tensors.at("w").shape, Shape{2});
  EXPECT_EQ(metadata.tensors.at("w").chunks[0].sizes, Shape{2});
  EXPECT_EQ(metadata.regions.at({"w", {0}}).bytes, 9U);
  EXPECT_TRUE(metadata.paths.empty());
  EXPECT_EQ(HandMade{.version = Value()}.fault(), "");
}

TEST(DcpMetadataTest, ErrorsNameTheEntry) {
  const Value sparse = Value::Call{{"torch.serialization", "_get_layout"}, {"torch.sparse_coo"}};
  const Attributes packed = {{"relative_path", "a"},
                             {"offset", 0},
                             {"length", 9},
                             {"transform_descriptors", Value::List{{"zstd"}}}};
  const Value bytes = Value::Call{{kModule, "BytesStorageMetadata"}, {}};
  const std::pair<HandMade, std::string> refused[] = {
      {{.type = Value::Global{"torch", "complex64"}},
       "the pickle names 'torch.complex64', which is not an allowed class"},
      {{.type = "float32"}, "'w': its type is not supported"},
      {{.layout = sparse}, "'w': its layout is not 'torch.strided'"},
      {{.sizes = 2}, "'w': 'size' is not a size"},
      {{.sizes = size_of({-2})}, "'w': 'size' is not a count"},
      {{.chunks = 2}, "'w': 'chunks' is not a list"},
      {{.chunks = Value::List{{2}}}, "'w': expected a ChunkStorageMetadata"},
      {{.info = packed}, "'w': it is compressed or transformed, which is not supported"},
      {{.info = {{"relative_path", "a"}, {"offset", -1}, {"length", 9}}},
       "'w': 'offset' is not a count"},
      {{.info = {{"relative_path", "a"}, {"offset", 0}}}, "'w': the attribute 'length' is missing"},
      {{.info = {{"relative_path", 1}, {"offset", 0}, {"length", 9}}},
       "'w': 'relative_path' is not a string"},
      {{.index = dict_of({{"fqn", 1}})}, "'fqn' is not a string"},
      {{.version = "2.0.0"}, "the version is '2.0.0', 1.x wanted"},
      {{.more_entries = {{"w", bytes}}}, "'w': duplicate entry"},
      {{.more_entries = {{"b", bytes}, {"b", bytes}}}, "'b': duplicate entry"},
      {{.stored_twice = true}, "'w': duplicate chunk"},
  };
  for (const auto& [made, message] : refused) EXPECT_EQ(made.fault(), message);
}

TEST(DcpMetadataTest, OtherPicklesAreRefused) {
  const auto fault = [](const Value& value) {
    const std::string bytes = write_pickle(value, 4);
    return format_fault([&] { read_dcp_metadata(as_bytes(bytes)); });
  };
  EXPECT_EQ(fault(1), "expected a Metadata");
  EXPECT_EQ(fault(Value::Call{{kModule, "Metadata"}, {}}), "a Metadata has no attributes");
  EXPECT_EQ(fault(object_of("Metadata", dict_of({}))),
            "the attribute 'state_dict_metadata' is missing");
  EXPECT_EQ(fault(Value::Call{{"os", "system"}, {"ls"}}),
            "the pickle names 'os.system', which is not an allowed class");
}

}  // namespace
}  // namespace accel::dcp_metadata_test
