// Crops the center of images.
#include <cstdint>
#include <vector>

#include "core/api/dataset.h"
#include "core/recipe/registry.h"
#include "data/transforms/image_ops.h"

namespace accel {
namespace {

struct CenterCropOptions {
  std::vector<int64_t> size;
};

class CenterCrop final : public Transform {
 public:
  static constexpr auto kName = "center_crop";
  static constexpr auto kSummary = "Cuts the middle out of images.";

  static Schema<CenterCropOptions> schema() {
    return Schema<CenterCropOptions>()
        .field("size", &CenterCropOptions::size, "[height, width], or one value for a square.",
               image_size_rule())
        .required();
  }

  CenterCrop(const CenterCropOptions& options, const TransformContext& context)
      : size_(exact_size(options.size)) {
    const ImageSize own = check_images(context.shape, kName);
    if (own.height != 0) check_crop(own, size_, {ExitCode::kRecipe, kName});
    shape_ = with_image_size(context.shape, size_);
  }

  Sample apply(Sample sample, SampleRng&) const override {
    const ImageSize own = size_of_image(sample.input, kName);
    check_crop(own, size_, {ExitCode::kData, kName});
    if (own != size_) sample.input = cut(sample.input, centre(own, size_), size_);
    return sample;
  }

  DataShape shape() const override { return shape_; }

 private:
  ImageSize size_;
  DataShape shape_;
};

const Register<CenterCrop> center_crop;

}  // namespace
}  // namespace accel
