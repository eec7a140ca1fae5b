// Flattens samples to vectors.
#include "core/api/dataset.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct FlattenOptions {};

class Flatten final : public Transform {
 public:
  static constexpr auto kName = "flatten";
  static constexpr auto kSummary = "Turns each input into a vector.";

  static Schema<FlattenOptions> schema() { return {}; }

  Flatten(const FlattenOptions&, const TransformContext& context) : shape_(context.shape) {
    if (count_of(shape_.input) == 0) {
      throw Error(ExitCode::kRecipe,
                  "'flatten' requires samples of one size, but their shapes differ",
                  "put a 'resize' before it");
    }
    shape_.input = {count_of(shape_.input)};
  }

  Sample apply(Sample sample, SampleRng&) const override {
    const Array& in = sample.input;
    sample.input = Array(in.type(), {in.count()}, in.data(), in.owner());
    return sample;
  }

  DataShape shape() const override { return shape_; }

 private:
  DataShape shape_;
};

const Register<Flatten> flatten;

}  // namespace
}  // namespace accel
