#include "formats/tensors/safetensors.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <tuple>

#include "core/base/text.h"
#include "formats/strict_json.h"
#include "formats/tensors/tensor_source.h"
#include "formats/untrusted.h"

namespace accel {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMaxHeaderBytes = size_t{16} << 20;
constexpr int kMaxHeaderDepth = 4;    // of the header's JSON: file, tensor, list, one spare
constexpr size_t kTensorBytes = 512;  // memory per tensor entry
constexpr auto kMetadata = "__metadata__";

/// Data order by type in Hugging Face's library.
constexpr std::array kLayout = {DType::kU64, DType::kI64,  DType::kF64, DType::kF32, DType::kU32,
                                DType::kI32, DType::kBF16, DType::kF16, DType::kU16, DType::kI16,
                                DType::kI8,  DType::kU8,   DType::kBool};

size_t layout_rank(DType type) {
  return static_cast<size_t>(std::find(kLayout.begin(), kLayout.end(), type) - kLayout.begin());
}

std::vector<const TensorSource*> file_order(const std::vector<TensorSource>& tensors) {
  std::vector<const TensorSource*> order;
  std::set<std::string_view> names = {kMetadata};
  for (const TensorSource& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      throw std::invalid_argument(
          text("'{}' is twice in a safetensors file, or reserved", tensor.name));
    }
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const TensorSource* a, const TensorSource* b) {
    const size_t first = layout_rank(a->type), second = layout_rank(b->type);
    return first != second ? first < second : a->name < b->name;
  });
  return order;
}

std::string header_of(const std::vector<const TensorSource*>& order) {
  ordered_json header;
  header[kMetadata]["format"] = "pt";
  size_t offset = 0;
  for (const TensorSource* tensor : order) {
    const size_t end = offset + tensor->bytes();
    header[tensor->name] = {{"dtype", name_of(tensor->type)},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, end}}};
    offset = end;
  }
  try {
    std::string out = header.dump();
    out.resize((out.size() + 7) / 8 * 8, ' ');
    return out;
  } catch (const json::type_error&) {
    throw std::invalid_argument("a tensor name in a safetensors file is not UTF-8");
  }
}

std::vector<uint64_t> read_numbers(const json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) {
    throw FormatError(text("'{}' is not a list", key));
  }
  std::vector<uint64_t> out;
  for (const json& number : *found) {
    if (!number.is_number_unsigned()) {
      throw FormatError(text("'{}' has an item that is not a non-negative integer", key));
    }
    out.push_back(number.get<uint64_t>());
  }
  return out;
}

DType read_dtype(const json& entry) {
  const auto found = entry.find("dtype");
  if (found == entry.end() || !found->is_string()) throw FormatError("'dtype' is not a string");
  const auto& name = found->get_ref<const std::string&>();
  for (const DType type : kLayout) {
    if (name == name_of(type)) return type;
  }
  throw FormatError(text("the type '{}' is not supported", name));
}

struct TensorExtent {
  std::string name;
  DType type;
  Shape shape;
  uint64_t begin;
  uint64_t end;
};

TensorExtent read_extent(const std::string& name, const json& entry) {
  if (!entry.is_object()) throw FormatError("its entry is not an object");
  TensorExtent extent{name, read_dtype(entry), {}, 0, 0};
  for (const uint64_t size : read_numbers(entry, "shape")) {
    extent.shape.push_back(
        static_cast<int64_t>(size));  // above 63 bits: negative, refused by claimed_bytes()
  }
  const std::optional<size_t> bytes = claimed_bytes(extent.type, extent.shape);
  if (!bytes) throw FormatError("its shape is too large");
  const std::vector<uint64_t> offsets = read_numbers(entry, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    throw FormatError("its offsets are not a range");
  if (offsets[1] - offsets[0] != *bytes) {
    throw FormatError(text("its offsets span {} bytes, its shape and type need {}",
                           offsets[1] - offsets[0], *bytes));
  }
  extent.begin = offsets[0];
  extent.end = offsets[1];
  return extent;
}

std::map<std::string, std::string> read_metadata(const json& entry) {
  std::map<std::string, std::string> out;
  if (!entry.is_object()) throw FormatError("'__metadata__' is not an object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) throw FormatError("'__metadata__' has a value that is not a string");
    out[key] = value.get<std::string>();
  }
  return out;
}

void check_tiling(const std::vector<TensorExtent>& extents, uint64_t data_bytes) {
  uint64_t next = 0;
  for (const TensorExtent& extent : extents) {
    if (extent.begin != next) {
      throw FormatError(text("tensor '{}' begins at byte {}, the previous one ends at {}",
                             extent.name, extent.begin, next));
    }
    next = extent.end;
  }
  if (next != data_bytes) {
    throw FormatError(text("the tensors end at byte {}, the data at {}", next, data_bytes));
  }
}

}  // namespace

TensorSource source_of(const NamedArray& tensor) {
  return {tensor.name, tensor.array.type(), tensor.array.shape(),
          [tensor] { return tensor.array; }};
}

void write_safetensors(const std::vector<NamedArray>& tensors, const ByteSink& sink) {
  std::vector<TensorSource> sources;
  for (const NamedArray& tensor : tensors) sources.push_back(source_of(tensor));
  write_safetensors(sources, sink);
}

void write_safetensors(const std::vector<TensorSource>& tensors, const ByteSink& sink) {
  const std::vector<const TensorSource*> order = file_order(tensors);
  const std::string header = header_of(order);
  std::string length;
  put_little<uint64_t>(length, header.size());
  sink(as_bytes(length));
  sink(as_bytes(header));
  for (const TensorSource* tensor : order) {
    const Array array = tensor->read();
    sink({array.data(), array.bytes()});
  }
}

SafetensorsFile read_safetensors(const SharedBytes& file) {
  ByteReader reader(file.view, "the file");
  const auto header_bytes = reader.little<uint64_t>();
  if (header_bytes > kMaxHeaderBytes) {
    throw FormatError(
        text("the header claims {} bytes, at most {} wanted", header_bytes, kMaxHeaderBytes));
  }
  MemoryBudget budget(file.view.size(), "the header");
  const json header =
      parse_strict_json(as_text(reader.take(header_bytes)), "the header", kMaxHeaderDepth, budget);
  budget.take(header.size() * kTensorBytes);
  const ByteSpan data = reader.take(reader.left());

  SafetensorsFile out;
  std::vector<TensorExtent> extents;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) {
      out.metadata = read_metadata(entry);
      continue;
    }
    try {
      extents.push_back(read_extent(name, entry));
    } catch (const FormatError& error) {
      throw FormatError(text("tensor '{}': {}", name, error.what()));
    }
  }
  std::sort(extents.begin(), extents.end(), [](const TensorExtent& a, const TensorExtent& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  check_tiling(extents, data.size());
  for (TensorExtent& extent : extents) {
    out.tensors.push_back({std::move(extent.name), Array(extent.type, std::move(extent.shape),
                                                         data.data() + extent.begin, file.owner)});
  }
  return out;
}

}  // namespace accel
