// Flips images horizontally at random.
#include <algorithm>

#include "core/api/dataset.h"
#include "core/recipe/registry.h"
#include "data/transforms/image_ops.h"

namespace accel {
namespace {

struct RandomFlipOptions {
  double p = 0.5;
};

class RandomFlip final : public Transform {
 public:
  static constexpr auto kName = "random_flip";
  static constexpr const char* kHintFor[] = {"random_horizontal_flip", "randomhorizontalflip"};
  static constexpr auto kSummary = "Mirrors training images left to right, at random.";

  static Schema<RandomFlipOptions> schema() {
    return Schema<RandomFlipOptions>().field(
        "p", &RandomFlipOptions::p, "Chance that an image is mirrored.", between(0.0, 1.0));
  }

  RandomFlip(const RandomFlipOptions& options, const TransformContext& context)
      : p_(options.p), train_(context.train), shape_(context.shape) {
    check_images(shape_, kName);
  }

  Sample apply(Sample sample, SampleRng& rng) const override {
    if (!train_ || rng.uniform() >= p_) return sample;
    const int64_t width = size_of_image(sample.input, kName).width;
    Array out(DType::kF32, sample.input.shape());
    const float* from = sample.input.as<float>().data();
    float* to = out.mutable_as<float>().data();
    for (int64_t at = 0; at < out.count(); at += width) {
      std::reverse_copy(from + at, from + at + width, to + at);
    }
    sample.input = std::move(out);
    return sample;
  }

  DataShape shape() const override { return shape_; }

 private:
  double p_;
  bool train_;
  DataShape shape_;
};

const Register<RandomFlip> random_flip;

}  // namespace
}  // namespace accel
