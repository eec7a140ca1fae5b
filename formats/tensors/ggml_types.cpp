#include "formats/tensors/ggml_types.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "core/base/format_error.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"

namespace accel {
namespace {

constexpr size_t kBlock = static_cast<size_t>(kGgmlBlock);
constexpr size_t kPiece = kBlock * 2048;  ///< elements converted at a time
constexpr uint16_t kHalfInfinity = 0x7c00;

std::string number_text(float value) {
  return show_number(static_cast<double>(value));
}

float float_of_half(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fU, fraction = bits & 0x3ffU;
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign ? -value : value;
  }
  const uint32_t wide = exponent == 0x1f ? 0xffU : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

template <class T, class Convert>
void read_as(const Array& array, size_t first, std::span<float> out, const Convert& convert) {
  const std::span<const T> values = array.as<T>().subspan(first, out.size());
  std::transform(values.begin(), values.end(), out.begin(), convert);
}

template <class T>
void put(std::vector<std::byte>& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

/// The scale of a block is its largest magnitude / 127; halves round away from zero.
void put_q8_0(std::span<const float> block, std::vector<std::byte>& out) {
  float largest = 0;
  for (const float value : block) {
    if (!std::isfinite(value)) throw FormatError("has values that are not finite");
    largest = std::max(largest, std::abs(value));
  }
  const float scale = largest / 127;
  const uint16_t bits = half_bits(scale);
  if (bits == kHalfInfinity) {
    throw FormatError(text("has values up to {}, beyond the range of Q8_0", number_text(largest)));
  }
  put(out, bits);
  // The inverse of the smallest scales is infinite, and their float16 is 0.
  const float inverse = scale == 0 || std::isinf(1 / scale) ? 0 : 1 / scale;
  for (const float value : block) {
    const float scaled = value * inverse, size = std::abs(scaled), floor = std::floor(size);
    const float rounded = floor + std::floor(2 * (size - floor));
    put(out, static_cast<uint8_t>(static_cast<int8_t>(scaled < 0 ? -rounded : rounded)));
  }
}

void put_half(float value, std::vector<std::byte>& out) {
  const uint16_t bits = half_bits(value);
  if ((bits & 0x7fffU) == kHalfInfinity && std::isfinite(value)) {
    throw FormatError(text("has the value {}, beyond float16's 65504", number_text(value)));
  }
  put(out, bits);
}

void put_piece(std::span<const float> values, GgmlType type, std::vector<std::byte>& out) {
  switch (type) {
    case GgmlType::kF32:
      for (const float value : values) put(out, std::bit_cast<uint32_t>(value));
      return;
    case GgmlType::kF16:
      for (const float value : values) put_half(value, out);
      return;
    case GgmlType::kBF16:
      for (const float value : values) put(out, bfloat_bits(value));
      return;
    case GgmlType::kQ8_0:
      for (size_t at = 0; at < values.size(); at += kBlock) {
        put_q8_0(values.subspan(at, kBlock), out);
      }
  }
}

}  // namespace

const char* name_of(GgmlType type) {
  switch (type) {
    case GgmlType::kF32:
      return "F32";
    case GgmlType::kF16:
      return "F16";
    case GgmlType::kBF16:
      return "BF16";
    case GgmlType::kQ8_0:
      return "Q8_0";
  }
  throw std::logic_error("unknown GgmlType");
}

bool holds_rows_of(GgmlType type, int64_t width) {
  return type != GgmlType::kQ8_0 || width % kGgmlBlock == 0;
}

size_t ggml_bytes(GgmlType type, int64_t elements) {
  const auto count = static_cast<size_t>(elements);
  if (type == GgmlType::kQ8_0) return count / kBlock * (2 + kBlock);
  return count * (type == GgmlType::kF32 ? 4 : 2);
}

uint16_t half_bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000U);
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return sign | 0x7e00U;         // NaN
  if (magnitude >= 0x477ff000U) return sign | kHalfInfinity;  // rounds to 65536 or more
  if (magnitude >= 0x38800000U) {                             // normal
    const uint32_t rebased = magnitude - (112U << 23);
    return static_cast<uint16_t>(sign | (rebased + 0xfff + (rebased >> 13 & 1)) >> 13);
  }
  // Adding 0.5 aligns a subnormal number's bits with the last ones of the sum, rounded.
  const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
  return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000U));
}

uint16_t bfloat_bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>(bits >> 16 | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void read_floats(const Array& array, size_t first, std::span<float> out) {
  switch (array.type()) {
    case DType::kF32:
      return read_as<float>(array, first, out, [](float value) { return value; });
    case DType::kF64:
      return read_as<double>(array, first, out,
                             [](double value) { return static_cast<float>(value); });
    case DType::kF16:
      return read_as<uint16_t>(array, first, out, float_of_half);
    case DType::kBF16:
      return read_as<uint16_t>(array, first, out, [](uint16_t bits) {
        return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
      });
    default:
      throw FormatError(
          text("has the type {}, which is no floating-point type", name_of(array.type())));
  }
}

void write_ggml(const Array& array, GgmlType type, const ByteSink& sink) {
  const auto count = static_cast<size_t>(array.count());
  if (type == GgmlType::kQ8_0 && count % kBlock != 0) throw std::logic_error("a ragged block");
  std::vector<float> values;
  std::vector<std::byte> bytes;
  for (size_t at = 0; at < count; at += kPiece) {
    values.resize(std::min(kPiece, count - at));
    read_floats(array, at, values);
    bytes.clear();
    put_piece(values, type, bytes);
    sink(bytes);
  }
}

}  // namespace accel
