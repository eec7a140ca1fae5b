// Initial states of cart-poles.
#include <string>

#include "core/api/dataset.h"
#include "core/recipe/registry.h"
#include "data/datasets/synthetic.h"

namespace accel {
namespace {

struct SyntheticCartPoleOptions {
  int64_t length = 1000;
  double spread = 0.05;
};

class SyntheticCartPole final : public Dataset {
 public:
  static constexpr auto kName = "synthetic/cart_pole";
  static constexpr auto kSummary = "Start states of a pole on a cart, for the task 'reinforce'.";

  static Schema<SyntheticCartPoleOptions> schema() {
    using Options = SyntheticCartPoleOptions;
    return Schema<Options>()
        .field("length", &Options::length, "Samples.", at_least<int64_t>(1))
        .field("spread", &Options::spread,
               "Bound of the absolute values of position, velocity, angle and angular velocity.",
               more_than(0.0));
  }

  SyntheticCartPole(const SyntheticCartPoleOptions& options, const DatasetContext& context)
      : options_(options), context_(context) {}

  int64_t size() const override { return options_.length; }

  /// The label is the direction of the pole: the correct push.
  Sample sample(int64_t index) const override {
    SampleRng rng = synthetic_rng(context_, index);
    Array input(DType::kF32, {4});
    for (float& value : input.mutable_as<float>()) {
      value = static_cast<float>(options_.spread * (2 * rng.uniform() - 1));
    }
    const bool right = input.as<float>()[2] > 0;
    return {input, Array::label(right ? 1 : 0)};
  }

  DataShape shape() const override {
    return {.input = {4}, .target = {}, .target_type = DType::kI64, .classes = 2};
  }

  std::string fingerprint() const override {
    return synthetic_fingerprint<SyntheticCartPole>(options_, context_);
  }

 private:
  SyntheticCartPoleOptions options_;
  DatasetContext context_;
};

const Register<SyntheticCartPole> synthetic_cart_pole;

}  // namespace
}  // namespace accel
