// Carts with poles that have only just begun to fall.
#include <string>

#include "core/dataset.h"
#include "core/registry.h"
#include "data/synthetic.h"

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
               "Place, speed, angle and turning speed lie between minus this and this.",
               more_than(0.0));
  }

  SyntheticCartPole(const SyntheticCartPoleOptions& options, const DatasetContext& context)
      : options_(options), context_(context) {}

  int64_t size() const override { return options_.length; }

  /// The label is the side to push to: under the pole.
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
