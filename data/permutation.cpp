#include "data/permutation.h"

#include <limits>
#include <numeric>
#include <random>
#include <utility>

namespace accel {
namespace {

// PyTorch draws 32 bits a number below this size and 64 from it on, where the remainder of a 32-bit
// draw would favour small numbers.
constexpr int64_t kWideDrawsFrom = std::numeric_limits<uint32_t>::max() / 20;

void shuffle_forward(std::vector<int64_t>& numbers, std::mt19937& draw) {
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  const size_t n = numbers.size();
  for (size_t i = 0; i + 1 < n; ++i) {
    std::swap(numbers[i], numbers[i + draw() % (n - i)]);
  }
}

void shuffle_inside_out(std::vector<int64_t>& numbers, std::mt19937& draw) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint64_t high = draw();
    const size_t j = (high << 32 | draw()) % (i + 1);
    numbers[i] = numbers[j];
    numbers[j] = static_cast<int64_t>(i);
  }
}

}  // namespace

std::vector<int64_t> permutation(int64_t n, uint64_t seed) {
  // PyTorch's engine keeps the low half of a seed only.
  std::mt19937 draw(static_cast<uint32_t>(seed));
  std::vector<int64_t> numbers(static_cast<size_t>(n));
  if (n < kWideDrawsFrom) {
    shuffle_forward(numbers, draw);
  } else {
    shuffle_inside_out(numbers, draw);
  }
  return numbers;
}

std::vector<int64_t> epoch_permutation(int64_t n, uint64_t seed, int64_t epoch) {
  return permutation(n, seed + static_cast<uint64_t>(epoch));
}

}  // namespace accel
