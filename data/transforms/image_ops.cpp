#include "data/transforms/image_ops.h"

#include <algorithm>
#include <cmath>

#include "core/base/text.h"

namespace accel {

Rule<std::vector<int64_t>> image_size_rule() {
  return {[](const std::vector<int64_t>& size) {
            return (size.size() == 1 || size.size() == 2) &&
                   std::all_of(size.begin(), size.end(), [](int64_t v) { return v >= 1; });
          },
          "one size or [height, width], each at least 1", "\"minItems\": 1, \"maxItems\": 2"};
}

ImageSize exact_size(const std::vector<int64_t>& size) {
  return {size.front(), size.back()};
}

ImageSize check_images(const DataShape& shape, const std::string& transform) {
  if (shape.input.size() != 3 || shape.input_type != DType::kF32) {
    throw Error(ExitCode::kRecipe,
                text("'{}' requires images of shape [channels, height, width], but the samples are "
                     "{} of shape {}",
                     transform, name_of(shape.input_type), to_string(shape.input)),
                "put it before any 'flatten'");
  }
  return {shape.input[1], shape.input[2]};
}

ImageSize size_of_image(const Array& image, const std::string& transform) {
  if (image.shape().size() != 3 || image.type() != DType::kF32) {
    throw DataError(text(
        "'{}' requires images of shape [channels, height, width], but the sample is {} of shape {}",
        transform, name_of(image.type()), to_string(image.shape())));
  }
  return {image.shape()[1], image.shape()[2]};
}

void check_crop(const ImageSize& size, const ImageSize& wanted, const CropBlame& blame) {
  if (wanted.height <= size.height && wanted.width <= size.width) return;
  throw Error(blame.code,
              text("'{}' crops to {} pixels, but an image has {}", blame.transform,
                   to_string(Shape{wanted.height, wanted.width}),
                   to_string(Shape{size.height, size.width})),
              "put a 'resize' before it");
}

DataShape with_image_size(DataShape shape, const ImageSize& size) {
  shape.input = {shape.input[0], size.height, size.width};
  return shape;
}

Corner centre(const ImageSize& size, const ImageSize& wanted) {
  return {std::llrint(static_cast<double>(size.height - wanted.height) / 2),
          std::llrint(static_cast<double>(size.width - wanted.width) / 2)};
}

Array cut(const Array& image, const Corner& corner, const ImageSize& size) {
  const int64_t channels = image.shape()[0];
  const int64_t height = image.shape()[1];
  const int64_t width = image.shape()[2];
  Array out(DType::kF32, {channels, size.height, size.width});
  const float* from = image.as<float>().data();
  float* to = out.mutable_as<float>().data();
  const int64_t first = std::clamp<int64_t>(-corner.left, 0, size.width);
  const int64_t last = std::clamp<int64_t>(width - corner.left, first, size.width);
  for (int64_t c = 0; c < channels; ++c, from += height * width) {
    for (int64_t y = 0; y < size.height; ++y, to += size.width) {
      const int64_t row = corner.top + y;
      if (row < 0 || row >= height || first == last) {
        std::fill_n(to, size.width, 0.0f);
        continue;
      }
      std::fill_n(to, first, 0.0f);
      std::copy_n(from + row * width + corner.left + first, last - first, to + first);
      std::fill_n(to + last, size.width - last, 0.0f);
    }
  }
  return out;
}

}  // namespace accel
