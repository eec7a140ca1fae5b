#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/text.h"
#include "formats/tensors/pickle_stream.h"
#include "formats/tensors/torch_storages.h"
#include "formats/tensors/torch_types.h"

namespace accel {
namespace {

/// 0x1950a86a20f9469cfc6c as a pickle of protocol 2, of which a Value has no integer.
constexpr std::array<uint8_t, 15> kMagic = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                            0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e};
constexpr int64_t kVersion = 1001;

/// Bytes of an element of each storage that the value refers to.
class StorageWidths {
 public:
  void collect(const Value& value) {
    if (const auto* list = value.as<Value::List>()) {
      collect_all(list->items);
    } else if (const auto* tuple = value.as<Value::Tuple>()) {
      collect_all(tuple->items);
    } else if (const auto* dict = value.as<Value::Dict>()) {
      for (const auto& item : dict->items) collect(item.second);
    } else if (const auto* call = value.as<Value::Call>()) {
      collect_all(call->arguments);
    } else if (const auto* persistent = value.as<Value::Persistent>()) {
      add(persistent->id);
    }
  }

  size_t of(const std::string& key) const {
    const auto found = widths_.find(key);
    if (found == widths_.end()) throw FormatError(text("storage '{}' is of no tensor", key));
    return found->second;
  }

 private:
  void collect_all(const std::vector<Value>& values) {
    for (const Value& value : values) collect(value);
  }

  /// ("storage", class, key, device, elements, view); invalid ids are refused with their tensor.
  void add(const std::vector<Value>& id) {
    if (id.size() != 6) throw FormatError("a tensor has no storage");
    if (!id[5].as<Value::None>()) throw FormatError("a storage is a view of another storage");
    const auto* kind = id[1].as<Value::Global>();
    const auto* key = id[2].as<std::string>();
    if (!kind || !key) throw FormatError("a tensor has no storage");
    const auto type = std::find_if(kTorchTypes.begin(), kTorchTypes.end(), [&](const TorchType& t) {
      return t.storage && kind->name == t.storage;
    });
    if (type == kTorchTypes.end()) {
      throw FormatError(text("storage '{}' has an unknown type", *key));
    }
    widths_[*key] = size_of(type->type);
  }

  std::map<std::string, size_t> widths_;
};

/// Gives persistent ids the five elements that they have in archives.
void drop_views(Value& value) {
  if (auto* list = std::get_if<Value::List>(&value.data)) {
    for (Value& item : list->items) drop_views(item);
  } else if (auto* tuple = std::get_if<Value::Tuple>(&value.data)) {
    for (Value& item : tuple->items) drop_views(item);
  } else if (auto* dict = std::get_if<Value::Dict>(&value.data)) {
    for (auto& item : dict->items) drop_views(item.second);
  } else if (auto* call = std::get_if<Value::Call>(&value.data)) {
    for (Value& item : call->arguments) drop_views(item);
  } else if (auto* persistent = std::get_if<Value::Persistent>(&value.data)) {
    persistent->id.resize(5);
  }
}

TorchStorage copied(ByteSpan bytes) {
  const auto owner = std::make_shared<Array>(DType::kU8, Shape{static_cast<int64_t>(bytes.size())});
  std::copy(bytes.begin(), bytes.end(), owner->mutable_data());
  return {{owner->data(), bytes.size()}, owner};
}

}  // namespace

bool is_legacy_torch_file(ByteSpan file) {
  return file.size() > kMagic.size() && std::memcmp(file.data(), kMagic.data(), kMagic.size()) == 0;
}

LegacyTorchFile read_legacy_torch_file(ByteSpan file, const GlobalFilter& allowed,
                                       MemoryBudget& budget) {
  ByteSpan rest = file.subspan(kMagic.size());
  const PickleRules plain{[](const Value::Global&) { return false; }}, rules{allowed};
  const Value version = take_pickle(rest, plain, budget);
  if (!version.as<int64_t>() || *version.as<int64_t>() != kVersion) {
    throw FormatError("the file is of an unknown version of torch's old format");
  }
  const Value system = take_pickle(rest, plain, budget);
  const Value* little = system.find("little_endian");
  if (!little || !little->as<bool>() || !*little->as<bool>()) {
    throw FormatError("the file is not little-endian");
  }
  LegacyTorchFile out{take_pickle(rest, rules, budget), {}};
  StorageWidths widths;
  widths.collect(out.value);
  drop_views(out.value);
  const Value keys = take_pickle(rest, plain, budget);
  if (!keys.as<Value::List>()) throw FormatError("the file has no list of storages");
  ByteReader in(rest, "the file");
  for (const Value& each : keys.as<Value::List>()->items) {
    const auto* key = each.as<std::string>();
    if (!key) throw FormatError("a storage's key is not a string");
    const auto elements = in.little<uint64_t>();
    const size_t width = widths.of(*key);
    if (elements > in.left() / width) {
      throw FormatError(
          text("storage '{}' claims {} elements in {} bytes", *key, elements, in.left()));
    }
    out.storages[*key] = copied(in.take(elements * width));
  }
  return out;
}

}  // namespace accel
