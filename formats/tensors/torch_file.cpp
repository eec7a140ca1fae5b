#include "formats/tensors/torch_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>

#include "core/base/text.h"
#include "formats/archive/zip.h"
#include "formats/tensors/torch_storages.h"
#include "formats/tensors/torch_types.h"
#include "formats/untrusted.h"

namespace accel {
namespace {

constexpr size_t kMaxRank = 64;  // PyTorch's limit, too

const Value::Global kUntyped = {"torch.storage", "UntypedStorage"};
const Value::Global kOrderedDict = {"collections", "OrderedDict"};

bool known_global(const Value::Global& global) {
  constexpr std::array kNames = {"collections.OrderedDict",
                                 "collections.Counter",
                                 "torch.Size",
                                 "torch.device",
                                 "torch.storage.UntypedStorage",
                                 "torch._utils._rebuild_tensor_v2",
                                 "torch._utils._rebuild_tensor_v3",
                                 "torch._utils._rebuild_parameter",
                                 "torch._tensor._rebuild_from_type_v2",
                                 "torch.Tensor",
                                 "_codecs.encode",
                                 "numpy.dtype",
                                 "numpy.ndarray",
                                 "numpy.dtypes.UInt32DType",
                                 "numpy.core.multiarray._reconstruct",
                                 "numpy._core.multiarray._reconstruct"};
  if (std::find(kNames.begin(), kNames.end(), full_name(global)) != kNames.end()) return true;
  return global.module == "torch" &&
         std::any_of(kTorchTypes.begin(), kTorchTypes.end(), [&](const TorchType& t) {
           return global.name == t.dtype || (t.storage && global.name == t.storage);
         });
}

/// Replaces arrays by the calls that rebuild tensors, and collects the arrays.
class TensorCalls {
 public:
  Value replace(const Value& value) {
    if (const auto* array = value.as<Array>()) return tensor(*array);
    if (const auto* list = value.as<Value::List>()) return Value::List{replace_all(list->items)};
    if (const auto* tuple = value.as<Value::Tuple>()) {
      return Value::Tuple{replace_all(tuple->items)};
    }
    if (const auto* dict = value.as<Value::Dict>()) {
      Value::Dict out;
      for (const auto& [key, item] : dict->items) out.items.emplace_back(key, replace(item));
      return out;
    }
    return value;
  }

  const std::vector<Array>& storages() const { return storages_; }

 private:
  std::vector<Value> replace_all(const std::vector<Value>& values) {
    std::vector<Value> out;
    for (const Value& value : values) out.push_back(replace(value));
    return out;
  }

  Value tensor(const Array& array) {
    const TorchType& type = torch_type(array.type());
    const std::string key = std::to_string(storages_.size());
    storages_.push_back(array);
    Value::Tuple sizes, strides;
    int64_t stride = 1;
    for (auto size = array.shape().rbegin(); size != array.shape().rend(); ++size) {
      strides.items.insert(strides.items.begin(), Value(stride));
      stride *= std::max<int64_t>(*size, 1);
    }
    for (const int64_t size : array.shape()) sizes.items.emplace_back(size);
    const auto elements =
        type.storage ? array.count() : static_cast<int64_t>(array.bytes());  // untyped: bytes
    Value::Global storage = type.storage ? Value::Global{"torch", type.storage} : kUntyped;
    Value::Call call;
    call.arguments = {Value::Persistent{{"storage", std::move(storage), key, "cpu", elements}},
                      0,
                      std::move(sizes),
                      std::move(strides),
                      false,
                      Value::Call{kOrderedDict, {}}};
    call.callable = {"torch._utils", "_rebuild_tensor_v2"};
    if (!type.storage) {
      call.callable.name = "_rebuild_tensor_v3";
      call.arguments.emplace_back(Value::Global{"torch", type.dtype});
    }
    return call;
  }

  std::vector<Array> storages_;
};

const std::string& text_of(const Value& value, const char* what) {
  if (const auto* string = value.as<std::string>()) return *string;
  throw FormatError(text("{} is not a string", what));
}

int64_t size_in(const Value& value) {
  const auto* number = value.as<int64_t>();
  if (!number || *number < 0) throw FormatError("a tensor has an invalid size or stride");
  return *number;
}

Shape sizes_in(const Value& value) {
  const auto* tuple = value.as<Value::Tuple>();
  if (!tuple) throw FormatError("a tensor's sizes are not a tuple");
  if (tuple->items.size() > kMaxRank) {
    throw FormatError(
        text("a tensor has {} dimensions, at most {} wanted", tuple->items.size(), kMaxRank));
  }
  Shape out;
  for (const Value& size : tuple->items) out.push_back(size_in(size));
  return out;
}

/// Strided view of a storage, in elements.
struct View {
  int64_t offset;
  Shape sizes;
  Shape strides;

  /// One past the last element; none above 63 bits.
  std::optional<int64_t> end() const {
    int64_t last = offset;
    for (size_t i = 0; i < sizes.size(); ++i) {
      int64_t reach = 0;
      if (sizes[i] == 0) return offset;
      if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) ||
          __builtin_add_overflow(last, reach, &last)) {
        return std::nullopt;
      }
    }
    return last < INT64_MAX ? std::optional(last + 1) : std::nullopt;
  }

  bool contiguous() const {
    int64_t expected = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      if (sizes[i] == 0) return true;
      if (sizes[i] != 1 && strides[i] != expected) return false;
      expected *= sizes[i];
    }
    return true;
  }
};

/// Copies a view into contiguous memory.
Array gather(DType type, const View& view, ByteSpan storage) {
  Array out(type, view.sizes);
  const size_t width = size_of(type);
  Shape index(view.sizes.size(), 0);
  int64_t at = view.offset;
  for (int64_t i = 0; i < out.count(); ++i) {
    std::memcpy(out.mutable_data() + i * width, storage.data() + at * width, width);
    for (size_t axis = index.size(); axis-- > 0;) {
      at += view.strides[axis];
      if (++index[axis] < view.sizes[axis]) break;
      at -= view.strides[axis] * view.sizes[axis];
      index[axis] = 0;
    }
  }
  return out;
}

/// The storage of a key, if it is there.
using StorageFinder = std::function<std::optional<TorchStorage>(const std::string& key)>;

/// Replaces the calls that rebuild tensors by arrays.
class TensorReader {
 public:
  /// `file_bytes` is the size of the file.
  TensorReader(StorageFinder storages, size_t file_bytes, MemoryBudget& budget, bool unaligned)
      : storages_(std::move(storages)),
        budget_(budget),
        unaligned_(unaligned),
        may_copy_(file_bytes) {}

  /// Replaces the calls in a tree.
  Value replace(Value value) {
    if (auto* list = std::get_if<Value::List>(&value.data)) {
      replace_all(list->items);
    } else if (auto* tuple = std::get_if<Value::Tuple>(&value.data)) {
      replace_all(tuple->items);
    } else if (auto* dict = std::get_if<Value::Dict>(&value.data)) {
      for (auto& item : dict->items) item.second = replace(std::move(item.second));
    } else if (auto* call = std::get_if<Value::Call>(&value.data)) {
      replace_all(call->arguments);
      return object(std::move(*call));
    }
    return value;
  }

  /// Replaces a call with replaced arguments.
  Value object(Value::Call call) {
    const std::string name = full_name(call.callable);
    if (name == "torch._utils._rebuild_tensor_v2" && call.arguments.size() >= 6) {
      return tensor(call.arguments, nullptr);
    }
    if (name == "torch._utils._rebuild_tensor_v3" && call.arguments.size() >= 7) {
      return tensor(call.arguments, call.arguments[6].as<Value::Global>());
    }
    if (name == "torch._utils._rebuild_parameter" && !call.arguments.empty()) {
      return std::move(call.arguments[0]);
    }
    // A tensor with attributes: its function, class, arguments and state.
    if (name == "torch._tensor._rebuild_from_type_v2" && call.arguments.size() == 4) {
      const auto* rebuild = call.arguments[0].as<Value::Global>();
      auto* arguments = std::get_if<Value::Tuple>(&call.arguments[2].data);
      if (rebuild && arguments) return object({*rebuild, std::move(arguments->items)});
    }
    if (name.starts_with("torch._")) throw FormatError("a tensor lacks arguments");
    if (name == "torch.Size" && call.arguments.size() == 1) return std::move(call.arguments[0]);
    return call;
  }

 private:
  void replace_all(std::vector<Value>& values) {
    for (Value& value : values) value = replace(std::move(value));
  }

  /// The element type and the bytes of the storage with a persistent id.
  std::pair<DType, TorchStorage> storage(const Value& id, const Value::Global* dtype) const {
    const auto* persistent = id.as<Value::Persistent>();
    if (!persistent || persistent->id.size() != 5 ||
        text_of(persistent->id[0], "a storage's kind") != "storage") {
      throw FormatError("a tensor has no storage");
    }
    const auto* kind = persistent->id[1].as<Value::Global>();
    const std::string& key = text_of(persistent->id[2], "a storage's key");
    std::optional<TorchStorage> storage = storages_(key);
    if (!storage) throw FormatError(text("storage '{}' is missing", key));
    const bool untyped = kind && full_name(*kind) == full_name(kUntyped);
    if (!kind || untyped != (dtype != nullptr)) throw FormatError("a storage has no type");
    const auto type = std::find_if(kTorchTypes.begin(), kTorchTypes.end(), [&](const TorchType& t) {
      return untyped ? dtype->name == t.dtype : t.storage && kind->name == t.storage;
    });
    if (type == kTorchTypes.end()) {
      throw FormatError(text("storage '{}' has an unknown type", key));
    }
    const int64_t claimed = size_in(persistent->id[4]);
    const auto bytes = claimed_bytes(untyped ? DType::kU8 : type->type, {claimed});
    if (bytes != storage->bytes.size()) {
      throw FormatError(
          text("storage '{}' claims {} elements in {} bytes", key, claimed, storage->bytes.size()));
    }
    return {type->type, *std::move(storage)};
  }

  Array tensor(const std::vector<Value>& arguments, const Value::Global* dtype) {
    const auto [type, whole] = storage(arguments[0], dtype);
    const ByteSpan data = whole.bytes;
    View view = {size_in(arguments[1]), sizes_in(arguments[2]), sizes_in(arguments[3])};
    if (view.sizes.size() != view.strides.size()) throw FormatError("a tensor lacks strides");
    const auto elements = static_cast<int64_t>(data.size() / size_of(type));
    const std::optional<int64_t> end = view.end();
    const std::optional<size_t> bytes = claimed_bytes(type, view.sizes);
    if (!end || *end > elements || !bytes || *bytes > data.size()) {
      throw FormatError(text("a tensor of shape {} exceeds its storage of {} elements",
                             to_string(view.sizes), elements));
    }
    const std::byte* first = data.data() + static_cast<size_t>(view.offset) * size_of(type);
    const bool aligned = unaligned_ || reinterpret_cast<uintptr_t>(first) % size_of(type) == 0;
    budget_.take(view.sizes.size() * sizeof(view.sizes[0]));
    if (aligned && view.contiguous()) return {type, std::move(view.sizes), first, whole.owner};
    if (*bytes > may_copy_) throw FormatError("the tensors take more memory than the file");
    may_copy_ -= *bytes;
    budget_.take(*bytes);
    return gather(type, view, data);
  }

  StorageFinder storages_;
  MemoryBudget& budget_;
  bool unaligned_;
  size_t may_copy_;  ///< bytes; bounds the copies of overlapping views
};

/// `value` after its calls are replaced.
void check_no_storages(const Value& value) {
  const auto check_all = [](const std::vector<Value>& values) {
    std::for_each(values.begin(), values.end(), check_no_storages);
  };
  if (value.as<Value::Persistent>()) throw FormatError("a storage appears outside a tensor");
  if (const auto* list = value.as<Value::List>()) check_all(list->items);
  if (const auto* tuple = value.as<Value::Tuple>()) check_all(tuple->items);
  if (const auto* call = value.as<Value::Call>()) check_all(call->arguments);
  if (const auto* dict = value.as<Value::Dict>()) {
    for (const auto& item : dict->items) check_no_storages(item.second);
  }
}

ByteSpan record(const ZipReader& zip, const std::string& name) {
  const auto found = zip.entries().find(name);
  if (found == zip.entries().end()) {
    throw FormatError(text("the archive has no '{}'", name));
  }
  return found->second;
}

}  // namespace

void write_torch_file(const Value& value, const std::string& name, const ByteSink& sink) {
  TensorCalls calls;
  const std::string pickle = write_pickle(calls.replace(value));
  ZipWriter zip(sink);
  zip.add(name + "/data.pkl", as_bytes(pickle));
  zip.add(name + "/.format_version", as_bytes("1"));
  zip.add(name + "/.storage_alignment", as_bytes("64"));
  zip.add(name + "/byteorder", as_bytes("little"));
  for (size_t i = 0; i < calls.storages().size(); ++i) {
    const Array& storage = calls.storages()[i];
    zip.add(name + "/data/" + std::to_string(i), {storage.data(), storage.bytes()});
  }
  zip.add(name + "/version", as_bytes("3\n"));
  zip.finish();
}

namespace {

Value read_archive(const SharedBytes& file, MemoryBudget& budget, bool unaligned,
                   const GlobalFilter& allowed) {
  const ZipReader zip(file.view);
  if (zip.entries().empty()) throw FormatError("the archive is empty");
  const std::string& first = zip.entries().begin()->first;
  const std::string folder = first.substr(0, first.find('/'));
  const ByteSpan pickle = record(zip, folder + "/data.pkl");
  record(zip, folder + "/version");
  const auto order = zip.entries().find(folder + "/byteorder");
  if (order != zip.entries().end() && as_text(order->second) != "little") {
    throw FormatError("the archive is not little-endian");
  }
  const auto storage = [&](const std::string& key) -> std::optional<TorchStorage> {
    const auto found = zip.entries().find(folder + "/data/" + key);
    if (found == zip.entries().end()) return std::nullopt;
    return TorchStorage{found->second, file.owner};
  };
  TensorReader tensors(storage, file.view.size(), budget, unaligned);
  PickleRules rules{allowed};
  rules.replace = [&](Value::Call call) { return tensors.object(std::move(call)); };
  Value value = read_pickle(pickle, rules, budget);
  check_no_storages(value);
  return value;
}

}  // namespace

Value read_embedded_torch_file(const SharedBytes& file, MemoryBudget& budget, bool unaligned) {
  return read_archive(file, budget, unaligned, known_global);
}

void check_torch_file(const SharedBytes& file) {
  if (is_legacy_torch_file(file.view)) return;  // it has no checksums
  ZipReader(file.view).check_data();
}

Value read_torch_file(const SharedBytes& file, const GlobalFilter& also) {
  MemoryBudget budget(file.view.size(), "the pickle");
  const auto allowed = [&](const Value::Global& global) {
    return known_global(global) || (also && also(global));
  };
  if (!is_legacy_torch_file(file.view)) return read_archive(file, budget, false, allowed);
  LegacyTorchFile legacy = read_legacy_torch_file(file.view, allowed, budget);
  const auto storage = [&](const std::string& key) -> std::optional<TorchStorage> {
    const auto found = legacy.storages.find(key);
    if (found == legacy.storages.end()) return std::nullopt;
    return found->second;
  };
  Value value =
      TensorReader(storage, file.view.size(), budget, false).replace(std::move(legacy.value));
  check_no_storages(value);
  return value;
}

}  // namespace accel
