#include "kernels/cpu/panel_product.h"

#include <cstdlib>
#include <memory>
#include <new>

#include "kernels/cpu/measured_cpu.h"

namespace accel {
namespace {

constexpr int64_t kMostNumbers = 65536;  // of a small product's panels

struct FreeMemory {
  void operator()(float* memory) const { std::free(memory); }
};

/// Memory of the calling thread for kMostNumbers, at a whole cache line.
float* memory_of_panels() {
  constexpr size_t kLine = 64;
  static thread_local const std::unique_ptr<float, FreeMemory> memory(
      static_cast<float*>(std::aligned_alloc(kLine, kMostNumbers * sizeof(float))));
  if (memory == nullptr) throw std::bad_alloc();
  return memory.get();
}

}  // namespace

void small_product(const MatrixPart& a, const MatrixPart& b, const ProductShape& shape,
                   const ProductTarget& to) {
  if (measured_cpu() != MeasuredCpu::kIntelAvx512 ||
      panel_numbers(shape.inner, shape.columns) > kMostNumbers) {
    return matrix_product(a, b, shape, to);
  }
  float* const panels = memory_of_panels();
  pack_panels(b, shape, panels);
  panel_product(a, {panels}, shape, to);
}

}  // namespace accel
