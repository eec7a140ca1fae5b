// Helpers of image transforms: sizes, checks of shapes, cropping.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/api/data_shape.h"
#include "core/base/error.h"
#include "core/recipe/rules.h"
#include "formats/image/image.h"

namespace accel {

/// One size or [height, width], each at least 1.
Rule<std::vector<int64_t>> image_size_rule();

/// `[height, width]`, or a square for one value.
ImageSize exact_size(const std::vector<int64_t>& size);

/// Height and width of samples of `shape`; 0 if they vary. Throws Error (recipe) naming `transform`
/// unless samples are float images [channels, height, width].
ImageSize check_images(const DataShape& shape, const std::string& transform);

/// As check_images, for one sample. Throws DataError.
ImageSize size_of_image(const Array& image, const std::string& transform);

/// For errors of crops: the transform's name, and the exit code for the recipe or for data.
struct CropBlame {
  ExitCode code;
  const char* transform;
};

/// Throws Error if `wanted` exceeds `size`.
void check_crop(const ImageSize& size, const ImageSize& wanted, const CropBlame& blame);

/// `shape` with another image size.
DataShape with_image_size(DataShape shape, const ImageSize& size);

/// Top left corner of a crop; may lie outside the image.
struct Corner {
  int64_t top = 0;
  int64_t left = 0;
};

/// Corner of a centered crop; rounds half to even as Python.
Corner centre(const ImageSize& size, const ImageSize& wanted);

/// Crops `image` (f32 [channels, height, width]) at `corner`, with zeros outside.
Array cut(const Array& image, const Corner& corner, const ImageSize& size);

}  // namespace accel
