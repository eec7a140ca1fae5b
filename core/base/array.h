// Typed array in host memory, for datasets, transforms and file formats. No libtorch; batches of
// arrays become tensors without a copy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace accel {

/// Element types, named as safetensors does. Values are stable within a process only.
enum class DType : uint8_t {
  kBool,
  kU8,
  kI8,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64
};

/// Bytes per element.
size_t size_of(DType type);
/// "F32", "I64", ...: safetensors' spelling.
const char* name_of(DType type);

using Shape = std::vector<int64_t>;

/// Elements in a shape; 1 for the empty shape. Throws std::overflow_error beyond 63 bits and
/// std::invalid_argument for a negative size.
int64_t count_of(const Shape& shape);
/// "[1, 28, 28]"
std::string to_string(const Shape& shape);

/// Row-major and contiguous. Copies share the memory; treat shared memory as read-only.
class Array {
 public:
  Array() = default;
  /// New memory, 64-byte aligned, not initialised.
  Array(DType type, Shape shape);
  /// A view of memory that `owner` keeps alive.
  Array(DType type, Shape shape, const std::byte* data, std::shared_ptr<const void> owner);

  /// Copies `values` in. T must match the type's size.
  template <class T>
  static Array of(DType type, Shape shape, std::span<const T> values);
  /// A 0-d int64, as class labels are.
  static Array label(int64_t value);

  DType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  int64_t count() const { return count_; }
  size_t bytes() const { return static_cast<size_t>(count_) * size_of(type_); }
  bool empty() const { return data_ == nullptr; }

  const std::byte* data() const { return data_; }
  /// Only for memory this array made and has not shared yet.
  std::byte* mutable_data() { return const_cast<std::byte*>(data_); }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  /// Whether its memory is unshared and may therefore be reused.
  bool is_only_owner() const;

  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_), static_cast<size_t>(count_)};
  }
  template <class T>
  std::span<T> mutable_as() {
    return {reinterpret_cast<T*>(mutable_data()), static_cast<size_t>(count_)};
  }

 private:
  DType type_ = DType::kF32;
  Shape shape_;
  int64_t count_ = 0;
  const std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

template <class T>
Array Array::of(DType type, Shape shape, std::span<const T> values) {
  Array out(type, std::move(shape));
  std::copy(values.begin(), values.end(), out.mutable_as<T>().begin());
  return out;
}

}  // namespace accel
