#include "core/array.h"

#include <new>
#include <stdexcept>

namespace accel {
namespace {

struct TypeFacts {
  const char* name;
  size_t size;
};

constexpr TypeFacts kFacts[] = {{"BOOL", 1}, {"U8", 1},   {"I8", 1},  {"I16", 2}, {"U16", 2},
                                {"F16", 2},  {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},
                                {"I64", 8},  {"U64", 8},  {"F64", 8}};

constexpr std::align_val_t kAlignment{64};

}  // namespace

size_t size_of(DType type) {
  return kFacts[static_cast<size_t>(type)].size;
}

const char* name_of(DType type) {
  return kFacts[static_cast<size_t>(type)].name;
}

int64_t count_of(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0) throw std::invalid_argument("negative size in a shape");
    if (__builtin_mul_overflow(count, size, &count)) {
      throw std::overflow_error("a shape holds more elements than 63 bits can count");
    }
  }
  return count;
}

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (const int64_t size : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(size);
  return out + "]";
}

Array::Array(DType type, Shape shape)
    : type_(type), shape_(std::move(shape)), count_(count_of(shape_)) {
  auto* memory = static_cast<std::byte*>(::operator new(bytes() ? bytes() : 1, kAlignment));
  data_ = memory;
  owner_ =
      std::shared_ptr<std::byte>(memory, [](std::byte* p) { ::operator delete(p, kAlignment); });
}

Array::Array(DType type, Shape shape, const std::byte* data, std::shared_ptr<const void> owner)
    : type_(type),
      shape_(std::move(shape)),
      count_(count_of(shape_)),
      data_(data),
      owner_(std::move(owner)) {}

Array Array::label(int64_t value) {
  return of<int64_t>(DType::kI64, {}, std::span<const int64_t>(&value, 1));
}

}  // namespace accel
