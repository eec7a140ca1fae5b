// Normalizes values per channel.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/api/dataset.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct NormalizeOptions {
  std::vector<double> mean;
  std::vector<double> std;
};

class Normalize final : public Transform {
 public:
  static constexpr auto kName = "normalize";
  static constexpr auto kSummary = "(value - mean) / std, per channel or feature.";

  static Schema<NormalizeOptions> schema() {
    return Schema<NormalizeOptions>()
        .field("mean", &NormalizeOptions::mean,
               "Means: one value, or one for each entry of the first dimension.")
        .required()
        .field("std", &NormalizeOptions::std, "Standard deviations, likewise.",
               each(more_than(0.0)))
        .required();
  }

  Normalize(const NormalizeOptions& options, const TransformContext& context)
      : shape_(context.shape),
        mean_(spread(options.mean, "mean")),
        std_(spread(options.std, "std")) {}

  Sample apply(Sample sample, SampleRng&) const override {
    Array out(DType::kF32, sample.input.shape());
    const float* from = sample.input.as<float>().data();
    float* to = out.mutable_as<float>().data();
    const int64_t block = out.count() / static_cast<int64_t>(mean_.size());
    for (size_t c = 0; c < mean_.size(); ++c) {
      for (int64_t i = 0; i < block; ++i) *to++ = (*from++ - mean_[c]) / std_[c];
    }
    sample.input = std::move(out);
    return sample;
  }

  DataShape shape() const override { return shape_; }

 private:
  /// One value per entry of the first dimension.
  std::vector<float> spread(const std::vector<double>& values, const std::string& option) const {
    if (shape_.input.empty() || shape_.input_type != DType::kF32) {
      throw Error(ExitCode::kRecipe,
                  text("'normalize' requires F32 inputs, but the inputs are {} of shape {}",
                       name_of(shape_.input_type), to_string(shape_.input)));
    }
    const auto wanted = static_cast<size_t>(shape_.input[0]);
    if (values.size() != 1 && values.size() != wanted) {
      throw Error(ExitCode::kRecipe,
                  text("'{}' has {} values, but the samples have shape {}", option, values.size(),
                       to_string(shape_.input)),
                  text("set 1 value or {}", wanted));
    }
    std::vector<float> all(wanted, static_cast<float>(values.front()));
    if (values.size() > 1) std::copy(values.begin(), values.end(), all.begin());
    return all;
  }

  DataShape shape_;
  std::vector<float> mean_;
  std::vector<float> std_;
};

const Register<Normalize> normalize;

}  // namespace
}  // namespace accel
