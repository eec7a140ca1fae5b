// Converts RGB images to luminance.
#include <cstdint>
#include <string>

#include "core/api/dataset.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/transforms/image_ops.h"

namespace accel {
namespace {

struct GrayscaleOptions {};

class Grayscale final : public Transform {
 public:
  static constexpr auto kName = "grayscale";
  static constexpr auto kSummary = "Turns RGB images into one channel of brightness (ITU-R 601).";

  static Schema<GrayscaleOptions> schema() { return {}; }

  Grayscale(const GrayscaleOptions&, const TransformContext& context) : shape_(context.shape) {
    check_images(shape_, kName);
    if (shape_.input[0] != 3) {
      throw Error(ExitCode::kRecipe,
                  text("'grayscale' requires 3 channels, but the samples have shape {}",
                       to_string(shape_.input)));
    }
    shape_.input[0] = 1;
  }

  Sample apply(Sample sample, SampleRng&) const override {
    const ImageSize size = size_of_image(sample.input, kName);
    const int64_t count = size.height * size.width;
    Array out(DType::kF32, {1, size.height, size.width});
    const float* red = sample.input.as<float>().data();
    const float* green = red + count;
    const float* blue = green + count;
    float* to = out.mutable_as<float>().data();
    for (int64_t i = 0; i < count; ++i) {
      to[i] = 0.299f * red[i] + 0.587f * green[i] + 0.114f * blue[i];
    }
    sample.input = std::move(out);
    return sample;
  }

  DataShape shape() const override { return shape_; }

 private:
  DataShape shape_;
};

const Register<Grayscale> grayscale;

}  // namespace
}  // namespace accel
