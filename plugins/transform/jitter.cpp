// A transform: changes samples one at a time, as they are read.
//
// It says what shape comes out for what comes in. What is random comes from the generator it is
// given, which depends on seed, epoch and sample alone: never from one of its own.
#include "core/api/dataset.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct JitterOptions {
  double deviation = 0.1;
};

class Jitter final : public Transform {
 public:
  static constexpr auto kName = "example/jitter";
  static constexpr auto kSummary = "Adds normal noise to each number of a training sample.";

  static Schema<JitterOptions> schema() {
    return Schema<JitterOptions>().field("deviation", &JitterOptions::deviation,
                                         "Standard deviation of what is added.", at_least(0.0));
  }

  Jitter(const JitterOptions& options, const TransformContext& context)
      : deviation_(options.deviation), context_(context) {
    if (context.shape.input_type == DType::kF32) return;
    throw Error(ExitCode::kRecipe, "'example/jitter' wants numbers, not tokens",
                "leave it out of 'transform'");
  }

  Sample apply(Sample sample, SampleRng& rng) const override {
    if (!context_.train) return sample;
    Array out(DType::kF32, sample.input.shape());
    const auto from = sample.input.as<float>();
    for (size_t i = 0; i < from.size(); ++i) {
      out.mutable_as<float>()[i] = from[i] + static_cast<float>(deviation_ * rng.normal());
    }
    sample.input = std::move(out);
    return sample;
  }

  DataShape shape() const override { return context_.shape; }

 private:
  double deviation_;
  TransformContext context_;
};

const Register<Jitter> jitter;

}  // namespace
}  // namespace accel
