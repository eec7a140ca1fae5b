// Decay when an evaluation metric stops improving, as torch's ReduceLROnPlateau.
#include <algorithm>
#include <limits>

#include "core/api/batch.h"
#include "core/base/text.h"
#include "train/optim/schedules/warmed_schedule.h"

namespace accel {
namespace {

enum class PlateauMode { kMin, kMax };
enum class ThresholdMode { kRel, kAbs };

}  // namespace

template <>
struct EnumNames<PlateauMode> {
  static constexpr std::pair<PlateauMode, const char*> kValues[] = {{PlateauMode::kMin, "min"},
                                                                    {PlateauMode::kMax, "max"}};
};
template <>
struct EnumNames<ThresholdMode> {
  static constexpr std::pair<ThresholdMode, const char*> kValues[] = {{ThresholdMode::kRel, "rel"},
                                                                      {ThresholdMode::kAbs, "abs"}};
};

namespace {

struct PlateauOptions {
  std::string metric = "eval/loss";
  PlateauMode mode = PlateauMode::kMin;
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 1e-4;
  ThresholdMode threshold_mode = ThresholdMode::kRel;
  int64_t cooldown = 0;
  double min_lr = 0;
  double eps = 1e-8;
  Duration warmup;
  double warmup_from = 0;
};

class PlateauSchedule final : public WarmedSchedule {
 public:
  static constexpr auto kName = "plateau";
  static constexpr const char* kHintFor[] = {"reduce_lr_on_plateau", "reducelronplateau"};
  static constexpr auto kSummary = "Decay by a factor when a metric stops improving.";
  static Schema<PlateauOptions> schema() {
    return with_warmup(
        Schema<PlateauOptions>()
            .field("metric", &PlateauOptions::metric, "Evaluation result to monitor.")
            .field("mode", &PlateauOptions::mode, "Whether lower or higher is better.")
            .field("factor", &PlateauOptions::factor, "Factor of the learning rate at each decay.",
                   within(0.0, 1.0))
            .field("patience", &PlateauOptions::patience,
                   "Consecutive evaluations without improvement before a decay. Raise it for noisy "
                   "metrics.",
                   at_least<int64_t>(0))
            .field("threshold", &PlateauOptions::threshold,
                   "Minimum change that counts as improvement.", at_least(0.0))
            .field("threshold_mode", &PlateauOptions::threshold_mode,
                   "Whether the threshold is relative to the best value or absolute.")
            .field("cooldown", &PlateauOptions::cooldown, "Evaluations ignored after a decay.",
                   at_least<int64_t>(0))
            .field("min_lr", &PlateauOptions::min_lr, "Lower bound of the learning rate.",
                   at_least(0.0))
            .field("eps", &PlateauOptions::eps, "Minimum decay; smaller ones are skipped.",
                   at_least(0.0)));
  }

  PlateauSchedule(const PlateauOptions& options, const ScheduleContext& context)
      : WarmedSchedule(options, context), options_(options) {
    const double worst = std::numeric_limits<double>::infinity();
    best_ = options.mode == PlateauMode::kMin ? worst : -worst;
  }

  std::string watches() const override { return options_.metric; }

  void observe(const std::map<std::string, double>& results) override {
    const auto found = results.find(options_.metric);
    if (found == results.end()) refuse_metric(results);
    const double metric = found->second;
    if (better(metric)) {
      best_ = metric;
      bad_in_a_row_ = 0;
    } else {
      ++bad_in_a_row_;
    }
    if (cooldown_left_ > 0) {
      --cooldown_left_;
      bad_in_a_row_ = 0;
    }
    if (bad_in_a_row_ > options_.patience) {
      ++drops_;
      cooldown_left_ = options_.cooldown;
      bad_in_a_row_ = 0;
    }
  }

  void save(StateDict& state) const override {
    state.numbers["best"] = best_;
    state.numbers["num_bad_epochs"] = static_cast<double>(bad_in_a_row_);
    state.numbers["cooldown_counter"] = static_cast<double>(cooldown_left_);
    state.numbers["drops"] = static_cast<double>(drops_);
  }

  void load(const StateDict& state) override {
    best_ = saved(state, "best");
    bad_in_a_row_ = static_cast<int64_t>(saved(state, "num_bad_epochs"));
    cooldown_left_ = static_cast<int64_t>(saved(state, "cooldown_counter"));
    drops_ = static_cast<int64_t>(saved(state, "drops"));
  }

 private:
  double rate(double base, int64_t) const override {
    for (int64_t i = 0; i < drops_; ++i) {
      const double next = std::max(base * options_.factor, options_.min_lr);
      if (base - next > options_.eps) base = next;
    }
    return base;
  }

  bool better(double metric) const {
    const bool relative = options_.threshold_mode == ThresholdMode::kRel;
    const double step = options_.threshold;
    if (options_.mode == PlateauMode::kMin) {
      return metric < (relative ? best_ * (1 - step) : best_ - step);
    }
    return metric > (relative ? best_ * (step + 1) : best_ + step);
  }

  [[noreturn]] void refuse_metric(const std::map<std::string, double>& results) const {
    std::vector<std::string> names;
    for (const auto& [name, value] : results) names.push_back(name);
    throw Error(ExitCode::kRecipe,
                text("the schedule 'plateau' monitors '{}', which the evaluation does not report",
                     options_.metric),
                did_you_mean(options_.metric, names));
  }

  static double saved(const StateDict& state, const std::string& name) {
    const auto found = state.numbers.find(name);
    if (found != state.numbers.end()) return found->second;
    throw CheckpointError(text("the state of the schedule 'plateau' has no '{}'", name));
  }

  PlateauOptions options_;
  double best_;
  int64_t bad_in_a_row_ = 0;
  int64_t cooldown_left_ = 0;
  int64_t drops_ = 0;
};

const Register<PlateauSchedule> plateau_schedule;

}  // namespace
}  // namespace accel
