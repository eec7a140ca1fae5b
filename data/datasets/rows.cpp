#include "data/datasets/rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "core/base/cpu_target.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

float half_to_float(uint16_t half) {
  const int exponent = half >> 10 & 0x1f;
  const int fraction = half & 0x3ff;
  float size = 0;
  if (exponent == 0x1f) {
    size =
        fraction ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  } else if (exponent == 0) {
    size = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    size = std::ldexp(static_cast<float>(fraction | 0x400), exponent - 25);
  }
  return half & 0x8000 ? -size : size;
}

float bfloat_to_float(uint16_t value) {
  return std::bit_cast<float>(uint32_t{value} << 16);
}

/// Calls `use` with the typed values of `array`; 16-bit floats are passed as their bits.
template <class Use>
void with_values(const Array& array, const Use& use) {
  switch (array.type()) {
    case DType::kBool:
    case DType::kU8:
      return use(array.as<uint8_t>());
    case DType::kI8:
      return use(array.as<int8_t>());
    case DType::kI16:
      return use(array.as<int16_t>());
    case DType::kU16:
    case DType::kF16:
    case DType::kBF16:
      return use(array.as<uint16_t>());
    case DType::kI32:
      return use(array.as<int32_t>());
    case DType::kU32:
      return use(array.as<uint32_t>());
    case DType::kF32:
      return use(array.as<float>());
    case DType::kI64:
      return use(array.as<int64_t>());
    case DType::kU64:
      return use(array.as<uint64_t>());
    case DType::kF64:
      return use(array.as<double>());
  }
}

ACCEL_PART_OF_LOOP void divide_bytes(const uint8_t* bytes, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(bytes[i]) / 255.0F;
}

ACCEL_FOR_EACH_CPU(unit_range, divide_bytes, (const uint8_t* bytes, int64_t count, float* out),
                   (bytes, count, out))

}  // namespace

Array row_of(const Array& all, int64_t index) {
  Shape shape(all.shape().begin() + 1, all.shape().end());
  const size_t stride = static_cast<size_t>(count_of(shape)) * size_of(all.type());
  const std::byte* row = all.data() + static_cast<size_t>(index) * stride;
  return Array(all.type(), std::move(shape), row, all.owner());
}

Array to_float(const Array& values) {
  if (values.type() == DType::kF32) return values;
  Array out(DType::kF32, values.shape());
  float* const to = out.mutable_as<float>().data();
  if (values.type() == DType::kF16 || values.type() == DType::kBF16) {
    const auto from = values.as<uint16_t>();
    std::transform(from.begin(), from.end(), to,
                   values.type() == DType::kF16 ? &half_to_float : &bfloat_to_float);
    return out;
  }
  with_values(values, [to](const auto& from) {
    std::transform(from.begin(), from.end(), to,
                   [](auto value) { return static_cast<float>(value); });
  });
  return out;
}

Array to_int64(const Array& values, const std::string& name) {
  const DType type = values.type();
  if (type == DType::kI64) return values;
  Array out(DType::kI64, values.shape());
  int64_t* const to = out.mutable_as<int64_t>().data();
  with_values(values, [&](const auto& from) {
    std::transform(from.begin(), from.end(), to,
                   [](auto value) { return static_cast<int64_t>(value); });
    if (type == DType::kU64 && std::any_of(to, to + from.size(), [](int64_t v) { return v < 0; })) {
      throw DataError(text("'{}' holds a whole number beyond 63 bits", name));
    }
  });
  return out;
}

Array to_unit_range(const Array& bytes) {
  Array out(DType::kF32, bytes.shape());
  put_unit_range(bytes.data(), bytes.count(), out.mutable_as<float>().data());
  return out;
}

void put_unit_range(const std::byte* bytes, int64_t count, float* out) {
  unit_range(reinterpret_cast<const uint8_t*>(bytes), count, out);
}

int64_t count_classes(const Array& labels, const std::string& name) {
  const auto values = labels.as<int64_t>();
  if (values.empty()) return 0;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (*low < 0) {
    throw DataError(text("'{}' holds the label {}; class labels are 0 or more", name, *low));
  }
  return *high + 1;
}

Array undefined_classes(int64_t samples) {
  const std::vector<int64_t> zeros(static_cast<size_t>(samples));
  return Array::of<int64_t>(DType::kI64, {samples}, zeros);
}

}  // namespace accel
