// Early stopping.
#include <algorithm>
#include <limits>

#include "core/api/callback.h"
#include "core/base/error.h"
#include "core/base/metric_names.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"
#include "core/recipe/registry.h"
#include "train/callbacks/continuation.h"

namespace accel {
namespace {

enum class StopMode { kAuto, kMin, kMax };

}  // namespace

template <>
struct EnumNames<StopMode> {
  static constexpr std::pair<StopMode, const char*> kValues[] = {
      {StopMode::kAuto, "auto"}, {StopMode::kMin, "min"}, {StopMode::kMax, "max"}};
};

namespace {

struct EarlyStopOptions {
  std::string metric = "eval/loss";
  int64_t patience = 3;
  double min_delta = 0;
  StopMode mode = StopMode::kAuto;
};

class EarlyStop final : public Callback, public Continuation {
 public:
  static constexpr auto kName = "early_stop";
  static constexpr const char* kHintFor[] = {"early_stopping", "earlystopping"};
  static constexpr auto kSummary = "Stops the run when a metric no longer improves.";

  static Schema<EarlyStopOptions> schema() {
    return Schema<EarlyStopOptions>()
        .field("metric", &EarlyStopOptions::metric, "Evaluation result to monitor.")
        .field("patience", &EarlyStopOptions::patience,
               "Consecutive evaluations without improvement before the run stops. Raise it for "
               "noisy metrics.",
               at_least<int64_t>(1))
        .field("min_delta", &EarlyStopOptions::min_delta,
               "Minimum change that counts as improvement.", at_least(0.0))
        .field(
            "mode", &EarlyStopOptions::mode,
            "Whether lower or higher is better. auto: lower for losses and errors, else higher.");
  }

  EarlyStop(const EarlyStopOptions& options, const CallbackContext& context)
      : options_(options),
        smaller_(options.mode == StopMode::kAuto ? lower_is_better(options.metric)
                                                 : options.mode == StopMode::kMin) {
    const std::vector<std::string>& known = context.metrics;
    if (std::find(known.begin(), known.end(), options.metric) == known.end()) {
      const std::string near = did_you_mean(options.metric, known);
      throw Error(
          ExitCode::kRecipe,
          text("'early_stop' monitors '{}', which the evaluation does not report", options.metric),
          near.empty() ? text("it reports {}", quoted_list(known)) : near);
    }
    const double worst = std::numeric_limits<double>::infinity();
    best_ = smaller_ ? worst : -worst;
  }

  bool supports_swapping() const override { return true; }

  void on_eval(int64_t /*step*/, const std::map<std::string, double>& results) override {
    const double value = results.at(options_.metric);
    const double gain = smaller_ ? best_ - value : value - best_;
    if (gain > options_.min_delta) {
      best_ = value;
      without_progress_ = 0;
    } else {
      ++without_progress_;
    }
  }

  std::optional<std::string> stop() const override {
    if (without_progress_ < options_.patience) return std::nullopt;
    return "'" + options_.metric + "' has not improved on " + show_number(best_) + " in " +
           std::to_string(without_progress_) +
           (without_progress_ == 1 ? " evaluation" : " evaluations");
  }

  std::string change_to_continue() const override {
    return text("patience={}", without_progress_ + options_.patience);
  }

  void save(StateDict& state) const override {
    state.numbers["best"] = best_;
    state.numbers["without_progress"] = static_cast<double>(without_progress_);
  }

  void load(const StateDict& state) override {
    best_ = saved(state, "best");
    without_progress_ = static_cast<int64_t>(saved(state, "without_progress"));
  }

 private:
  static std::string listed(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += (out.empty() ? "'" : ", '") + name + "'";
    return out.empty() ? "nothing" : out;
  }

  static double saved(const StateDict& state, const std::string& name) {
    const auto found = state.numbers.find(name);
    if (found != state.numbers.end()) return found->second;
    throw CheckpointError(text("the state of 'early_stop' has no '{}'", name));
  }

  EarlyStopOptions options_;
  bool smaller_;
  double best_;
  int64_t without_progress_ = 0;
};

const Register<EarlyStop> early_stop;

}  // namespace
}  // namespace accel
