// A reward function: completions that are a number score by their distance from the answer.
//
// It must depend on its arguments alone, so that a resumed run repeats, and is called on every rank
// for that rank's completions.
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "core/api/reward.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct NearNumberOptions {
  std::string column = "answer";
  double scale = 1;
};

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole ? std::optional(value) : std::nullopt;
}

class NearNumber final : public RewardFunction {
 public:
  static constexpr auto kName = "example/near_number";
  static constexpr auto kSummary = "1 for the answer's number, less with the distance from it.";

  static Schema<NearNumberOptions> schema() {
    return Schema<NearNumberOptions>()
        .field("column", &NearNumberOptions::column,
               "Column of the answer. Rows without it are not scored.")
        .field("scale", &NearNumberOptions::scale, "Distance at which the reward is 1/e.",
               more_than(0.0));
  }

  explicit NearNumber(const NearNumberOptions& options) : options_(options) {}

  std::vector<std::optional<double>> score(std::span<const ScoredCompletion> completions) override {
    std::vector<std::optional<double>> rewards;
    for (const ScoredCompletion& completion : completions) rewards.push_back(score(completion));
    return rewards;
  }

 private:
  std::optional<double> score(const ScoredCompletion& completion) const {
    const auto column = completion.row.columns.find(options_.column);
    if (column == completion.row.columns.end()) return std::nullopt;
    const std::optional<double> answer = number_of(column->second);
    if (!answer) {
      throw DataError(completion.row.place + ": '" + column->second + "' is not a number",
                      "give '" + options_.column + "' a number, or name another with 'column'");
    }
    const std::optional<double> found = number_of(completion.text);
    return found ? std::exp(-std::abs(*found - *answer) / options_.scale) : 0;
  }

  NearNumberOptions options_;
};

const Register<NearNumber> near_number;

}  // namespace
}  // namespace accel
