#include "runner/formats/safetensors.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <tuple>

#include "runner/formats/claim.h"
#include "runner/formats/strict_json.h"

namespace accel {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMaxHeaderBytes = size_t{16} << 20;
constexpr int kMaxDepth = 4;          // of the header's JSON: file, tensor, list, and one to spare
constexpr size_t kTensorBytes = 512;  // of memory for what is kept of a tensor's entry
constexpr auto kMetadata = "__metadata__";

/// The order in which Hugging Face's library lays types out.
constexpr std::array kLayout = {DType::kU64, DType::kI64,  DType::kF64, DType::kF32, DType::kU32,
                                DType::kI32, DType::kBF16, DType::kF16, DType::kU16, DType::kI16,
                                DType::kI8,  DType::kU8,   DType::kBool};

size_t layout_rank(DType type) {
  return static_cast<size_t>(std::find(kLayout.begin(), kLayout.end(), type) - kLayout.begin());
}

std::vector<const NamedArray*> file_order(const std::vector<NamedArray>& tensors) {
  std::vector<const NamedArray*> order;
  std::set<std::string_view> names = {kMetadata};
  for (const NamedArray& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      throw std::invalid_argument("a safetensors file cannot hold '" + tensor.name + "' again");
    }
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const NamedArray* a, const NamedArray* b) {
    const size_t first = layout_rank(a->array.type()), second = layout_rank(b->array.type());
    return first != second ? first < second : a->name < b->name;
  });
  return order;
}

std::string header_of(const std::vector<const NamedArray*>& order) {
  ordered_json header;
  header[kMetadata]["format"] = "pt";
  size_t offset = 0;
  for (const NamedArray* tensor : order) {
    const size_t end = offset + tensor->array.bytes();
    header[tensor->name] = {{"dtype", name_of(tensor->array.type())},
                            {"shape", tensor->array.shape()},
                            {"data_offsets", {offset, end}}};
    offset = end;
  }
  try {
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
  } catch (const json::type_error&) {
    throw std::invalid_argument("a safetensors file cannot hold a name that is not UTF-8");
  }
}

std::vector<uint64_t> read_numbers(const json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) {
    throw FormatError("'" + std::string(key) + "' is not a list");
  }
  std::vector<uint64_t> out;
  for (const json& number : *found) {
    if (!number.is_number_unsigned()) {
      throw FormatError("'" + std::string(key) + "' holds something other than whole numbers");
    }
    out.push_back(number.get<uint64_t>());
  }
  return out;
}

DType read_dtype(const json& entry) {
  const auto found = entry.find("dtype");
  if (found == entry.end() || !found->is_string()) throw FormatError("'dtype' is not a text");
  const auto& name = found->get_ref<const std::string&>();
  for (const DType type : kLayout) {
    if (name == name_of(type)) return type;
  }
  throw FormatError("the type '" + name + "' is not supported");
}

struct TensorPlace {
  std::string name;
  DType type;
  Shape shape;
  uint64_t begin;
  uint64_t end;
};

TensorPlace read_place(const std::string& name, const json& entry) {
  if (!entry.is_object()) throw FormatError("it is not described by an object");
  TensorPlace place{name, read_dtype(entry), {}, 0, 0};
  for (const uint64_t size : read_numbers(entry, "shape")) {
    place.shape.push_back(static_cast<int64_t>(size));  // beyond 63 bits: negative, not claimable
  }
  const std::optional<size_t> bytes = claimed_bytes(place.type, place.shape);
  if (!bytes) throw FormatError("its shape is too large");
  const std::vector<uint64_t> offsets = read_numbers(entry, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) throw FormatError("its offsets are no range");
  if (offsets[1] - offsets[0] != *bytes) {
    throw FormatError("its offsets span " + std::to_string(offsets[1] - offsets[0]) +
                      " bytes, its shape and type want " + std::to_string(*bytes));
  }
  place.begin = offsets[0];
  place.end = offsets[1];
  return place;
}

std::map<std::string, std::string> read_metadata(const json& entry) {
  std::map<std::string, std::string> out;
  if (!entry.is_object()) throw FormatError("'__metadata__' is not an object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) throw FormatError("'__metadata__' holds something other than texts");
    out[key] = value.get<std::string>();
  }
  return out;
}

void check_tiling(const std::vector<TensorPlace>& places, uint64_t data_bytes) {
  uint64_t next = 0;
  for (const TensorPlace& place : places) {
    if (place.begin != next) {
      throw FormatError("tensor '" + place.name + "' begins at byte " +
                        std::to_string(place.begin) + ", the one before it ends at " +
                        std::to_string(next));
    }
    next = place.end;
  }
  if (next != data_bytes) {
    throw FormatError("the tensors end at byte " + std::to_string(next) + ", the data at " +
                      std::to_string(data_bytes));
  }
}

}  // namespace

void write_safetensors(const std::vector<NamedArray>& tensors, const ByteSink& sink) {
  const std::vector<const NamedArray*> order = file_order(tensors);
  const std::string header = header_of(order);
  std::string length;
  put_little<uint64_t>(length, header.size());
  sink(as_bytes(length));
  sink(as_bytes(header));
  for (const NamedArray* tensor : order) {
    sink({tensor->array.data(), tensor->array.bytes()});
  }
}

SafetensorsFile read_safetensors(const SharedBytes& file) {
  ByteReader reader(file.view, "the file");
  const auto header_bytes = reader.little<uint64_t>();
  if (header_bytes > kMaxHeaderBytes) {
    throw FormatError("the header claims " + std::to_string(header_bytes) + " bytes, at most " +
                      std::to_string(kMaxHeaderBytes) + " are read");
  }
  MemoryBudget budget(file.view.size(), "the header");
  const json header =
      parse_strict_json(as_text(reader.take(header_bytes)), "the header", kMaxDepth, budget);
  budget.take(header.size() * kTensorBytes);
  const ByteSpan data = reader.take(reader.left());

  SafetensorsFile out;
  std::vector<TensorPlace> places;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) {
      out.metadata = read_metadata(entry);
      continue;
    }
    try {
      places.push_back(read_place(name, entry));
    } catch (const FormatError& error) {
      throw FormatError("tensor '" + name + "': " + error.what());
    }
  }
  std::sort(places.begin(), places.end(), [](const TensorPlace& a, const TensorPlace& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  check_tiling(places, data.size());
  for (TensorPlace& place : places) {
    out.tensors.push_back({std::move(place.name), Array(place.type, std::move(place.shape),
                                                        data.data() + place.begin, file.owner)});
  }
  return out;
}

}  // namespace accel
