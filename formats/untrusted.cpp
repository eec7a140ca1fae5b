#include "formats/untrusted.h"

namespace accel {

std::optional<size_t> claimed_bytes(DType type, const Shape& shape) {
  int64_t bytes = static_cast<int64_t>(size_of(type));
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return static_cast<size_t>(bytes);
}

}  // namespace accel
