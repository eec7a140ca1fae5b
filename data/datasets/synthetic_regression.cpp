// Noisy points of a linear function: the smallest trainable dataset.
#include <cstdint>
#include <string>

#include "core/api/dataset.h"
#include "core/recipe/registry.h"
#include "data/datasets/synthetic.h"

namespace accel {
namespace {

struct SyntheticRegressionOptions {
  int64_t length = 64;
  int64_t features = 1;
  double slope = 2.0;
  double intercept = 3.0;
  double noise = 0.1;
};

class SyntheticRegression final : public Dataset {
 public:
  static constexpr auto kName = "synthetic/regression";
  static constexpr auto kSummary = "Points near y = slope * x + intercept, made on the fly.";

  static Schema<SyntheticRegressionOptions> schema() {
    using Options = SyntheticRegressionOptions;
    return Schema<Options>()
        .field("length", &Options::length, "Samples.", at_least<int64_t>(1))
        .field("features", &Options::features,
               "Numbers in one input, each standard normal; x is their sum.", at_least<int64_t>(1))
        .field("slope", &Options::slope, "The slope.")
        .field("intercept", &Options::intercept, "The intercept.")
        .field("noise", &Options::noise, "Standard deviation of y around the line.", at_least(0.0));
  }

  SyntheticRegression(const SyntheticRegressionOptions& options, const DatasetContext& context)
      : options_(options), context_(context) {}

  int64_t size() const override { return options_.length; }

  Sample sample(int64_t index) const override {
    SampleRng rng = synthetic_rng(context_, index);
    Array input(DType::kF32, {options_.features});
    double x = 0;
    for (float& value : input.mutable_as<float>()) {
      value = static_cast<float>(rng.normal());
      x += value;
    }
    const auto y =
        static_cast<float>(options_.slope * x + options_.intercept + options_.noise * rng.normal());
    return {input, Array::of<float>(DType::kF32, {1}, {&y, 1})};
  }

  DataShape shape() const override {
    return {.input = {options_.features}, .target = {1}, .target_type = DType::kF32};
  }

  std::string fingerprint() const override {
    return synthetic_fingerprint<SyntheticRegression>(options_, context_);
  }

 private:
  SyntheticRegressionOptions options_;
  DatasetContext context_;
};

const Register<SyntheticRegression> synthetic_regression;

}  // namespace
}  // namespace accel
