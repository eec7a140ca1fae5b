// Resizes images.
#include <cstdint>
#include <vector>

#include "core/api/dataset.h"
#include "core/recipe/registry.h"
#include "data/transforms/image_ops.h"
#include "data/transforms/resample.h"

namespace accel {
namespace {

struct ResizeOptions {
  std::vector<int64_t> size;
  Interpolation interpolation = Interpolation::kBilinear;
};

class Resize final : public Transform {
 public:
  static constexpr auto kName = "resize";
  static constexpr auto kSummary =
      "Resizes images, averaging over covered pixels when downscaling.";

  static Schema<ResizeOptions> schema() {
    return Schema<ResizeOptions>()
        .field("size", &ResizeOptions::size,
               "[height, width], or one value for the shorter side, keeping proportions.",
               image_size_rule())
        .required()
        .field("interpolation", &ResizeOptions::interpolation, "How pixels are found.");
  }

  Resize(const ResizeOptions& options, const TransformContext& context)
      : options_(options), shape_(context.shape) {
    shape_ = with_image_size(shape_, resized(check_images(shape_, kName), options.size));
  }

  Sample apply(Sample sample, SampleRng&) const override {
    const ImageSize size = resized(size_of_image(sample.input, kName), options_.size);
    sample.input = resample_floats(sample.input, size, options_.interpolation);
    return sample;
  }

  DataShape shape() const override { return shape_; }

 private:
  ResizeOptions options_;
  DataShape shape_;
};

const Register<Resize> resize;

}  // namespace
}  // namespace accel
