// Reward of completions that equal an answer.
#include <optional>
#include <string>
#include <vector>

#include "core/api/reward.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "train/rewards/reward_pattern.h"

namespace accel {
namespace {

struct ExactMatchOptions {
  std::string column = "answer";
  std::optional<std::string> extract;
  bool ignore_case = false;
  double reward = 1;
};

class ExactMatchReward final : public RewardFunction {
 public:
  static constexpr auto kName = "exact_match";
  static constexpr auto kSummary =
      "1 for a completion that equals the row's answer, without spaces around it; else 0.";

  static Schema<ExactMatchOptions> schema() {
    return Schema<ExactMatchOptions>()
        .field("column", &ExactMatchOptions::column, "Column of the answer; numbers are texts.")
        .hint_for({"answer", "reference", "target", "solution"})
        .field("extract", &ExactMatchOptions::extract,
               "Regular expression whose last match in the completion is compared, such as "
               "'-?[0-9]+'. A completion without a match has no answer.",
               valid_pattern())
        .field("ignore_case", &ExactMatchOptions::ignore_case,
               "Compares letters of ASCII without their case.")
        .field("reward", &ExactMatchOptions::reward, "Reward of an equal completion.");
  }

  explicit ExactMatchReward(const ExactMatchOptions& options) : options_(options) {
    if (options.extract) pattern_ = Pattern::regex(*options.extract);
  }

  std::vector<std::string> columns() const override { return {options_.column}; }

  std::vector<std::optional<double>> score(std::span<const ScoredCompletion> completions) override {
    std::vector<std::optional<double>> out;
    for (const ScoredCompletion& item : completions) {
      const auto found = item.row.columns.find(options_.column);
      if (found == item.row.columns.end()) {
        throw DataError(text("{} has no column '{}', which the reward 'exact_match' reads",
                             item.row.place, options_.column),
                        "give each row the column, or name another with 'column'");
      }
      const std::optional<std::string> answer = answer_of(item.text);
      out.emplace_back(answer && comparable(*answer) == comparable(found->second) ? options_.reward
                                                                                  : 0);
    }
    return out;
  }

 private:
  std::optional<std::string> answer_of(const std::string& completion) const {
    if (!pattern_) return completion;
    std::vector<TextSpan> matches;
    pattern_->find(completion, matches);
    if (matches.empty()) return std::nullopt;
    return completion.substr(matches.back().begin, matches.back().end - matches.back().begin);
  }

  std::string comparable(const std::string& value) const {
    const std::string bare = trimmed(value);
    return options_.ignore_case ? ascii_lower(bare) : bare;
  }

  ExactMatchOptions options_;
  std::optional<Pattern> pattern_;
};

const Register<ExactMatchReward> exact_match_reward;

}  // namespace
}  // namespace accel
