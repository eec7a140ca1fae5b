// Reward of completions of a form.
#include <optional>
#include <string>
#include <vector>

#include "core/api/reward.h"
#include "train/rewards/reward_pattern.h"

namespace accel {
namespace {

struct FormatOptions {
  std::string pattern;
  bool whole = true;
  double reward = 1;
};

class FormatReward final : public RewardFunction {
 public:
  static constexpr auto kName = "format";
  static constexpr auto kSummary =
      "1 for a completion that matches a regular expression, such as "
      "'<think>[\\s\\S]*</think>\\s*<answer>[\\s\\S]*</answer>'; else 0.";

  static Schema<FormatOptions> schema() {
    return Schema<FormatOptions>()
        .field("pattern", &FormatOptions::pattern, "Regular expression.", valid_text_pattern())
        .required()
        .hint_for({"regex", "format"})
        .field("whole", &FormatOptions::whole,
               "Whether the whole completion must match, without spaces around it, or a part.")
        .field("reward", &FormatOptions::reward, "Reward of a completion that matches.");
  }

  explicit FormatReward(const FormatOptions& options)
      : options_(options),
        pattern_(
            Pattern::regex(options.whole ? "^(?:" + options.pattern + ")$" : options.pattern)) {}

  std::vector<std::optional<double>> score(std::span<const ScoredCompletion> completions) override {
    std::vector<std::optional<double>> out;
    for (const ScoredCompletion& item : completions) {
      const std::string bare = trimmed(item.text);
      std::vector<TextSpan> matches;
      pattern_.find(bare, matches);
      const bool is_whole =
          matches.size() == 1 && matches[0].begin == 0 && matches[0].end == bare.size();
      out.emplace_back((options_.whole ? is_whole : !matches.empty()) ? options_.reward : 0);
    }
    return out;
  }

 private:
  FormatOptions options_;
  Pattern pattern_;
};

const Register<FormatReward> format_reward;

}  // namespace
}  // namespace accel
