#include "formats/tensors/python_random.h"

#include <algorithm>
#include <vector>

namespace accel {
namespace {

// Constants of Matsumoto and Nishimura's reference initialization (2002).
constexpr uint32_t kByArraySeed = 19650218;

uint32_t mixed(uint32_t previous) {
  return previous ^ (previous >> 30);
}

}  // namespace

MersenneState numpy_random_state(uint32_t seed) {
  MersenneState words;
  words[0] = seed;
  for (uint32_t i = 1; i < words.size(); ++i) words[i] = 1812433253U * mixed(words[i - 1]) + i;
  return words;
}

MersenneState python_random_state(uint64_t seed) {
  std::vector<uint32_t> key = {static_cast<uint32_t>(seed)};
  if (seed >> 32) key.push_back(static_cast<uint32_t>(seed >> 32));

  MersenneState words = numpy_random_state(kByArraySeed);
  size_t i = 1, j = 0;
  const auto advance = [&] {
    if (++i < words.size()) return;
    words[0] = words.back();
    i = 1;
  };
  for (size_t left = std::max(words.size(), key.size()); left > 0; --left) {
    words[i] = (words[i] ^ (mixed(words[i - 1]) * 1664525U)) + key[j] + static_cast<uint32_t>(j);
    advance();
    j = (j + 1) % key.size();
  }
  for (size_t left = words.size() - 1; left > 0; --left) {
    words[i] = (words[i] ^ (mixed(words[i - 1]) * 1566083941U)) - static_cast<uint32_t>(i);
    advance();
  }
  words[0] = 0x80000000U;
  return words;
}

}  // namespace accel
