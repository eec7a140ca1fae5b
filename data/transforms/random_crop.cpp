// Crops images at a random position after zero padding.
#include <cstdint>
#include <vector>

#include "core/api/dataset.h"
#include "core/recipe/registry.h"
#include "data/transforms/image_ops.h"

namespace accel {
namespace {

struct RandomCropOptions {
  std::vector<int64_t> size;
  int64_t padding = 0;
};

class RandomCrop final : public Transform {
 public:
  static constexpr auto kName = "random_crop";
  static constexpr auto kSummary =
      "Cuts a random part out of training images, the middle out of others.";

  static Schema<RandomCropOptions> schema() {
    return Schema<RandomCropOptions>()
        .field("size", &RandomCropOptions::size, "[height, width], or one value for a square.",
               image_size_rule())
        .required()
        .field("padding", &RandomCropOptions::padding,
               "Zeros put on each side before cutting, in pixels.", between<int64_t>(0, 4096));
  }

  RandomCrop(const RandomCropOptions& options, const TransformContext& context)
      : size_(exact_size(options.size)), padding_(options.padding), train_(context.train) {
    const ImageSize own = check_images(context.shape, kName);
    if (own.height != 0) check_crop(padded(own), size_, {ExitCode::kRecipe, kName});
    shape_ = with_image_size(context.shape, size_);
  }

  Sample apply(Sample sample, SampleRng& rng) const override {
    const ImageSize own = size_of_image(sample.input, kName);
    const ImageSize room = padded(own);
    check_crop(room, size_, {ExitCode::kData, kName});
    Corner corner = centre(own, size_);
    if (train_) {
      corner.top = offset(room.height - size_.height, rng);
      corner.left = offset(room.width - size_.width, rng);
    }
    sample.input = cut(sample.input, corner, size_);
    return sample;
  }

  DataShape shape() const override { return shape_; }

 private:
  ImageSize padded(const ImageSize& size) const {
    return {size.height + 2 * padding_, size.width + 2 * padding_};
  }

  int64_t offset(int64_t slack, SampleRng& rng) const {
    return static_cast<int64_t>(rng.below(static_cast<uint64_t>(slack) + 1)) - padding_;
  }

  ImageSize size_;
  int64_t padding_;
  bool train_;
  DataShape shape_;
};

const Register<RandomCrop> random_crop;

}  // namespace
}  // namespace accel
