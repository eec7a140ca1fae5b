// Compiled with OpenMP, without which at::parallel_for is a serial loop.
#include "kernels/cpu/parallel.h"

#include <ATen/Parallel.h>

#include <algorithm>

namespace accel {

void for_each_part(int64_t count, int64_t grain, c10::function_ref<void(int64_t, int64_t)> work) {
  const int64_t grains = (count + grain - 1) / grain;
  at::parallel_for(0, grains, 1, [&](int64_t begin, int64_t end) {
    work(begin * grain, std::min(end * grain, count));
  });
}

int64_t rows_of_part(int64_t rows, int64_t width) {
  constexpr int64_t kLeastNumbers = 32768, kMostParts = 16;
  return std::max((kLeastNumbers + width - 1) / width, (rows + kMostParts - 1) / kMostParts);
}

}  // namespace accel
