#include "formats/tensors/gguf.h"

#include <bit>
#include <set>
#include <stdexcept>

#include "core/base/format_error.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr uint32_t kVersion = 3;
constexpr size_t kMaxTensorName = 63;

/// The format's numbers of value types.
enum class ValueType : uint32_t {
  kUint8 = 0,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9
};

void put_type(std::string& out, ValueType type) {
  put_little(out, static_cast<uint32_t>(type));
}

/// Appends values, each after its type where it is not an element of an array.
struct ValueWriter {
  std::string& out;

  static constexpr ValueType type_of(bool) { return ValueType::kBool; }
  static constexpr ValueType type_of(uint8_t) { return ValueType::kUint8; }
  static constexpr ValueType type_of(uint32_t) { return ValueType::kUint32; }
  static constexpr ValueType type_of(int32_t) { return ValueType::kInt32; }
  static constexpr ValueType type_of(float) { return ValueType::kFloat32; }
  static ValueType type_of(const std::string&) { return ValueType::kString; }

  void put(bool value) const { out += static_cast<char>(value ? 1 : 0); }
  void put(uint8_t value) const { out += static_cast<char>(value); }
  void put(uint32_t value) const { put_little(out, value); }
  void put(int32_t value) const { put_little(out, value); }
  void put(float value) const { put_little(out, std::bit_cast<uint32_t>(value)); }
  void put(const std::string& value) const {
    put_little(out, static_cast<uint64_t>(value.size()));
    out += value;
  }

  template <class T>
  void operator()(const T& value) const {
    put_type(out, type_of(value));
    put(value);
  }
  template <class T>
  void operator()(const std::vector<T>& values) const {
    put_type(out, ValueType::kArray);
    put_type(out, type_of(T()));
    put_little(out, static_cast<uint64_t>(values.size()));
    for (const T& value : values) put(value);
  }
};

size_t aligned(size_t bytes) {
  return (bytes + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment;
}

void check_names(const GgufFile& file) {
  std::set<std::string> keys, names;
  for (const GgufField& field : file.fields) {
    if (!keys.insert(field.key).second) throw std::invalid_argument("two fields " + field.key);
  }
  for (const GgufTensor& tensor : file.tensors) {
    const std::string& name = tensor.source.name;
    if (!names.insert(name).second) throw std::invalid_argument("two tensors " + name);
    if (name.size() > kMaxTensorName) throw std::invalid_argument("a long name: " + name);
  }
}

/// All bytes before the tensors' data.
std::string header_of(const GgufFile& file) {
  std::string out = "GGUF";
  put_little(out, kVersion);
  put_little(out, static_cast<uint64_t>(file.tensors.size()));
  put_little(out, static_cast<uint64_t>(file.fields.size()));
  const ValueWriter writer{out};
  for (const GgufField& field : file.fields) {
    writer.put(field.key);
    std::visit(writer, field.value);
  }
  uint64_t offset = 0;
  for (const GgufTensor& tensor : file.tensors) {
    const Shape& shape = tensor.source.shape;
    writer.put(tensor.source.name);
    put_little(out, static_cast<uint32_t>(shape.size()));
    // ggml's first dimension is the innermost.
    for (size_t i = shape.size(); i-- > 0;) put_little(out, static_cast<uint64_t>(shape[i]));
    put_little(out, static_cast<uint32_t>(tensor.type));
    put_little(out, offset);
    offset += aligned(ggml_bytes(tensor.type, count_of(shape)));
  }
  out.resize(aligned(out.size()));
  return out;
}

}  // namespace

void write_gguf(const GgufFile& file, const ByteSink& sink) {
  check_names(file);
  sink(as_bytes(header_of(file)));
  for (const GgufTensor& tensor : file.tensors) {
    try {
      write_ggml(tensor.source.read(), tensor.type, sink);
    } catch (const FormatError& error) {
      throw FormatError(text("'{}' {}", tensor.source.name, error.what()));
    }
    const size_t bytes = ggml_bytes(tensor.type, count_of(tensor.source.shape));
    sink(as_bytes(std::string(aligned(bytes) - bytes, '\0')));
  }
}

}  // namespace accel
