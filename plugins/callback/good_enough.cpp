// A callback: ends the run once a metric has been good enough for some evaluations in a row.
//
// A callback watches steps and evaluations and may ask to stop. What it remembers it saves and
// loads, so that a resumed run ends where the whole one would.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/api/callback.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct GoodEnoughOptions {
  std::string metric = "eval/loss";
  double value = 0;
  bool at_most = true;
  int64_t times = 1;
};

class GoodEnough final : public Callback {
 public:
  static constexpr auto kName = "example/good_enough";
  static constexpr auto kSummary = "Ends the run when a metric has reached a value.";

  static Schema<GoodEnoughOptions> schema() {
    return Schema<GoodEnoughOptions>()
        .field("metric", &GoodEnoughOptions::metric, "The result of an evaluation to watch.")
        .field("value", &GoodEnoughOptions::value, "What it has to reach.")
        .required()
        .field("at_most", &GoodEnoughOptions::at_most,
               "Whether it has to come down to the value, as a loss; else up to it.")
        .field("times", &GoodEnoughOptions::times, "In how many evaluations in a row.",
               at_least<int64_t>(1));
  }

  GoodEnough(const GoodEnoughOptions& options, const CallbackContext& context) : options_(options) {
    const auto& known = context.metrics;
    if (std::find(known.begin(), known.end(), options.metric) != known.end()) return;
    throw Error(ExitCode::kRecipe,
                "'example/good_enough' watches '" + options.metric + "', which nothing reports",
                "add it to 'eval.metrics'");
  }

  void on_eval(int64_t /*step*/, const std::map<std::string, double>& results) override {
    const double found = results.at(options_.metric);
    const bool good = options_.at_most ? found <= options_.value : found >= options_.value;
    in_a_row_ = good ? in_a_row_ + 1 : 0;
  }

  std::optional<std::string> stop() const override {
    if (in_a_row_ < options_.times) return std::nullopt;
    return options_.metric + " is good enough";
  }

  void save(StateDict& state) const override {
    state.numbers["in_a_row"] = static_cast<double>(in_a_row_);
  }

  void load(const StateDict& state) override {
    const auto found = state.numbers.find("in_a_row");
    if (found == state.numbers.end()) {
      throw CheckpointError("the state of 'example/good_enough' has no 'in_a_row'");
    }
    in_a_row_ = static_cast<int64_t>(found->second);
  }

 private:
  GoodEnoughOptions options_;
  int64_t in_a_row_ = 0;
};

const Register<GoodEnough> good_enough;

}  // namespace
}  // namespace accel
