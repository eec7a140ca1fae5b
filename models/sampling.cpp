#include "models/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"

namespace accel {
namespace {

void check_logits(std::span<const float> logits) {
  bool any = false;
  for (const float logit : logits) {
    if (std::isnan(logit) || logit == HUGE_VALF) {
      throw DivergedError("the model's logits are not finite",
                          "take a checkpoint from before the training diverged");
    }
    any = any || std::isfinite(logit);
  }
  if (!any) throw DivergedError("the model gives every token the chance 0");
}

/// Tokens that may be chosen, the likeliest first where that matters.
std::vector<int64_t> candidates(std::span<const float> logits, const SamplingOptions& options) {
  std::vector<int64_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto likelier = [&](int64_t a, int64_t b) {
    const float left = logits[static_cast<size_t>(a)], right = logits[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  };
  const auto count = static_cast<int64_t>(tokens.size());
  const int64_t kept = options.top_k > 0 ? std::min(options.top_k, count) : count;
  if (kept < count || options.top_p < 1) {
    std::partial_sort(tokens.begin(), tokens.begin() + kept, tokens.end(), likelier);
  }
  tokens.resize(static_cast<size_t>(kept));
  return tokens;
}

/// Tokens of the sorted `chances` that together reach `share` of their sum.
size_t nucleus(const std::vector<double>& chances, double share) {
  const double wanted = share * std::accumulate(chances.begin(), chances.end(), 0.0);
  double sum = 0;
  for (size_t i = 0; i < chances.size(); ++i) {
    sum += chances[i];
    if (sum >= wanted) return i + 1;
  }
  return chances.size();
}

}  // namespace

int64_t choose_token(std::span<const float> logits, const SamplingOptions& options,
                     SampleRng& rng) {
  check_logits(logits);
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (options.temperature == 0) return largest - logits.begin();
  const std::vector<int64_t> tokens = candidates(logits, options);
  std::vector<double> chances;
  for (const int64_t token : tokens) {
    const double below = static_cast<double>(logits[static_cast<size_t>(token)]) - *largest;
    chances.push_back(std::exp(below / options.temperature));
  }
  if (options.top_p < 1) chances.resize(nucleus(chances, options.top_p));
  const double drawn = rng.uniform() * std::accumulate(chances.begin(), chances.end(), 0.0);
  double sum = 0;
  size_t last = 0;  // of those with a chance: rounding must not lead past them
  for (size_t i = 0; i < chances.size(); ++i) {
    sum += chances[i];
    if (chances[i] > 0) last = i;
    if (drawn < sum) return tokens[i];
  }
  return tokens[last];
}

}  // namespace accel
