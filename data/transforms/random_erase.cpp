// Erases a random rectangle of images (Zhong et al., 2017).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "core/api/dataset.h"
#include "core/recipe/registry.h"
#include "data/transforms/image_ops.h"

namespace accel {
namespace {

constexpr int kEraseAttempts = 10;

struct RandomEraseOptions {
  double p = 0.5;
  double smallest = 0.02;
  double largest = 0.33;
  double elongation = 3.3;
  double value = 0.0;
};

class RandomErase final : public Transform {
 public:
  static constexpr auto kName = "random_erase";
  static constexpr const char* kHintFor[] = {"random_erasing", "randomerasing"};
  static constexpr auto kSummary =
      "Erases a random rectangle of training images, with a probability.";

  static Schema<RandomEraseOptions> schema() {
    return Schema<RandomEraseOptions>()
        .field("p", &RandomEraseOptions::p, "Chance that an image is changed.", between(0.0, 1.0))
        .field("smallest", &RandomEraseOptions::smallest,
               "Least part of the image's area to blank.", between(0.0, 1.0))
        .field("largest", &RandomEraseOptions::largest,
               "Largest part of the image's area to blank.", between(0.0, 1.0))
        .field("elongation", &RandomEraseOptions::elongation,
               "How many times longer than the other a side may be.", at_least(1.0))
        .field("value", &RandomEraseOptions::value, "The value of erased pixels.")
        .check([](const RandomEraseOptions& options, const Node& node, Reading& reading) {
          if (options.smallest <= options.largest) return;
          reading.problems.error(node.where, "'smallest' must not be above 'largest'");
        });
  }

  RandomErase(const RandomEraseOptions& options, const TransformContext& context)
      : options_(options), train_(context.train), shape_(context.shape) {
    check_images(shape_, kName);
  }

  Sample apply(Sample sample, SampleRng& rng) const override {
    if (!train_ || rng.uniform() >= options_.p) return sample;
    const ImageSize own = size_of_image(sample.input, kName);
    const std::optional<ImageSize> hole = choose_size(own, rng);
    if (!hole) return sample;
    const auto top = static_cast<int64_t>(rng.below(own.height - hole->height + 1));
    const auto left = static_cast<int64_t>(rng.below(own.width - hole->width + 1));
    Array out = Array::of<float>(DType::kF32, sample.input.shape(), sample.input.as<float>());
    float* plane = out.mutable_as<float>().data();
    for (int64_t c = 0; c < out.shape()[0]; ++c, plane += own.height * own.width) {
      for (int64_t y = top; y < top + hole->height; ++y) {
        std::fill_n(plane + y * own.width + left, hole->width, static_cast<float>(options_.value));
      }
    }
    sample.input = std::move(out);
    return sample;
  }

  DataShape shape() const override { return shape_; }

 private:
  /// A rectangle that fits; none after several failed draws.
  std::optional<ImageSize> choose_size(const ImageSize& own, SampleRng& rng) const {
    for (int i = 0; i < kEraseAttempts; ++i) {
      const double part =
          options_.smallest + (options_.largest - options_.smallest) * rng.uniform();
      const double area = part * static_cast<double>(own.height * own.width);
      const double aspect = std::pow(options_.elongation, 2 * rng.uniform() - 1);
      const ImageSize hole{std::llrint(std::sqrt(area * aspect)),
                           std::llrint(std::sqrt(area / aspect))};
      if (hole.height < own.height && hole.width < own.width) return hole;
    }
    return std::nullopt;
  }

  RandomEraseOptions options_;
  bool train_;
  DataShape shape_;
};

const Register<RandomErase> random_erase;

}  // namespace
}  // namespace accel
