// Which neighbours in words come often enough to become one symbol.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace accel {

struct CountedWord {
  std::vector<int32_t> symbols;
  int64_t count = 0;
};

/// The most frequent pair of neighbours becomes one symbol, again and again; of equally frequent
/// ones that of the lower ids. `make` gives the symbol of the two, and is called until it gives -1
/// or no pair occurs twice.
void learn_merges(std::vector<CountedWord> words,
                  const std::function<int32_t(int32_t left, int32_t right)>& make);

}  // namespace accel
