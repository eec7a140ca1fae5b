#include "parallel/pipeline/balance.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace accel {
namespace {

/// The most expensive stage, then the sum of squares: compared in this order.
using Score = std::pair<double, double>;

}  // namespace

std::vector<int64_t> balance_blocks(const std::vector<double>& costs, int64_t stages) {
  const size_t blocks = costs.size(), count = static_cast<size_t>(stages);
  if (stages < 1 || count > blocks) throw std::logic_error("a stage needs a block");
  std::vector<double> before = {0};  // cost of the first blocks
  for (const double cost : costs) before.push_back(before.back() + cost);
  const Score none = {std::numeric_limits<double>::infinity(), 0};
  // best[s][b]: of the first b blocks in s stages; start[s][b]: the first block of the last one.
  std::vector<std::vector<Score>> best(count + 1, std::vector<Score>(blocks + 1, none));
  std::vector<std::vector<size_t>> start(count + 1, std::vector<size_t>(blocks + 1));
  best[0][0] = {0, 0};
  for (size_t s = 1; s <= count; ++s) {
    for (size_t b = s; b <= blocks; ++b) {
      for (size_t first = s - 1; first < b; ++first) {
        const Score& rest = best[s - 1][first];
        const double own = before[b] - before[first];
        const Score score = {std::max(rest.first, own), rest.second + own * own};
        if (!(score < best[s][b])) continue;
        best[s][b] = score;
        start[s][b] = first;
      }
    }
  }
  std::vector<int64_t> sizes(count);
  size_t end = blocks;
  for (size_t s = count; s > 0; --s) {
    sizes[s - 1] = static_cast<int64_t>(end - start[s][end]);
    end = start[s][end];
  }
  return sizes;
}

}  // namespace accel
