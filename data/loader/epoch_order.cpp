#include "data/loader/epoch_order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

namespace accel {
namespace {

// PyTorch draws 32 bits per number below this size and 64 bits from it, to limit modulo bias.
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
  // PyTorch's engine uses the low 32 bits of a seed.
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

std::vector<int64_t> block_permutation(int64_t n, int64_t block, uint64_t seed, int64_t epoch) {
  constexpr int64_t kRunsOfABlock = 16;
  const int64_t run = std::max<int64_t>(block / kRunsOfABlock, 1);
  const std::vector<int64_t> runs = epoch_permutation((n + run - 1) / run, seed, epoch);
  std::vector<int64_t> order;
  order.reserve(static_cast<size_t>(n));
  for (const int64_t index : runs) {
    for (int64_t i = index * run; i < std::min(n, (index + 1) * run); ++i) order.push_back(i);
  }
  // Another engine than that of permutation(), so that no block has the order of a block of another
  // epoch.
  std::mt19937_64 block_seeds(seed + static_cast<uint64_t>(epoch));
  for (int64_t first = 0; first < n; first += block) {
    const int64_t size = std::min(block, n - first);
    const std::vector<int64_t> inside = permutation(size, block_seeds());
    const std::vector<int64_t> samples(order.begin() + first, order.begin() + first + size);
    for (int64_t i = 0; i < size; ++i) {
      order[static_cast<size_t>(first + i)] =
          samples[static_cast<size_t>(inside[static_cast<size_t>(i)])];
    }
  }
  return order;
}

std::vector<int64_t> lengths_of(const Dataset& dataset) {
  const auto* known = dynamic_cast<const KnowsLengths*>(&dataset);
  if (!known || !known->lengths_known()) return {};
  std::vector<int64_t> lengths(static_cast<size_t>(dataset.size()));
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = known->length(static_cast<int64_t>(i));
  return lengths;
}

std::vector<int64_t> grouped_by_length(std::vector<int64_t> draws,
                                       const std::vector<int64_t>& lengths, int64_t batch) {
  constexpr int64_t kMostBatches = 50;
  constexpr int64_t kFewestStretches = 4;
  const auto count = static_cast<int64_t>(draws.size());
  const int64_t batches = std::clamp<int64_t>(count / (batch * kFewestStretches), 1, kMostBatches);
  const int64_t stretch = batches * batch;
  const auto length = [&](int64_t draw) {
    return lengths[static_cast<size_t>(draw) % lengths.size()];
  };
  auto longest = draws.begin();
  for (int64_t first = 0; first < count; first += stretch) {
    const auto begin = draws.begin() + first;
    const auto end = draws.begin() + std::min(first + stretch, count);
    std::stable_sort(begin, end, [&](int64_t a, int64_t b) { return length(a) > length(b); });
    if (length(*begin) > length(*longest)) longest = begin;
  }
  if (count > 0) std::iter_swap(draws.begin(), longest);
  return draws;
}

}  // namespace accel
