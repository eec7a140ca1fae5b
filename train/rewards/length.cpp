// Reward by the length of completions.
#include <algorithm>
#include <optional>
#include <vector>

#include "core/api/reward.h"

namespace accel {
namespace {

struct LengthOptions {
  int64_t max_tokens = 0;
  int64_t buffer = 0;
};

/// The soft overlong punishment of DAPO (Yu et al., 2025, equation 13).
class LengthReward final : public RewardFunction {
 public:
  static constexpr auto kName = "length";
  static constexpr auto kSummary =
      "0 for completions up to a length, falling to -1 over the tokens of a buffer: the soft "
      "overlong punishment of DAPO.";

  static Schema<LengthOptions> schema() {
    return Schema<LengthOptions>()
        .field("max_tokens", &LengthOptions::max_tokens,
               "Tokens from which on the reward is -1, end token included.", at_least<int64_t>(1))
        .required()
        .hint_for({"max_completion_len"})
        .field("buffer", &LengthOptions::buffer,
               "Tokens before 'max_tokens' over which the reward falls from 0.",
               at_least<int64_t>(0))
        .hint_for({"soft_punish_cache"})
        .check([](const LengthOptions& options, const Node& node, Reading& reading) {
          if (options.buffer < options.max_tokens) return;
          const Node::Entry* entry = node.find("buffer");
          reading.problems.error(entry ? entry->node.where : node.where,
                                 "'buffer' must be less than 'max_tokens'", "lower it");
        });
  }

  explicit LengthReward(const LengthOptions& options) : options_(options) {}

  std::vector<std::optional<double>> score(std::span<const ScoredCompletion> completions) override {
    std::vector<std::optional<double>> out;
    for (const ScoredCompletion& item : completions) {
      out.emplace_back(reward_of(static_cast<int64_t>(item.tokens.size())));
    }
    return out;
  }

 private:
  double reward_of(int64_t tokens) const {
    const int64_t free = options_.max_tokens - options_.buffer;
    if (tokens <= free) return 0;
    if (tokens > options_.max_tokens) return -1;
    return static_cast<double>(free - tokens) / static_cast<double>(options_.buffer);
  }

  LengthOptions options_;
};

const Register<LengthReward> length_reward;

}  // namespace
}  // namespace accel
