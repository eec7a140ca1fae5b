// What image transforms share: the sizes they are given, the shapes they take, and cutting.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/data_shape.h"
#include "core/error.h"
#include "core/rules.h"
#include "runner/formats/image.h"

namespace accel {

/// One size or [height, width], each at least 1.
Rule<std::vector<int64_t>> image_size_rule();

/// `[height, width]`, or a square when there is one value.
ImageSize exact_size(const std::vector<int64_t>& size);

/// Height and width of samples of `shape`; 0 when they differ from sample to sample. Throws Error
/// (recipe) naming `transform` unless samples are float images [channels, height, width].
ImageSize check_images(const DataShape& shape, const std::string& transform);

/// As check_images, of one sample. Throws DataError.
ImageSize size_of_image(const Array& image, const std::string& transform);

/// Who complains about a crop: the transform's name, and whether the recipe or a sample is at
/// fault.
struct CropBlame {
  ExitCode code;
  const char* transform;
};

/// Throws Error when `wanted` does not fit into `size`.
void check_crop(const ImageSize& size, const ImageSize& wanted, const CropBlame& blame);

/// `shape` with other image sizes.
DataShape with_image_size(DataShape shape, const ImageSize& size);

/// Where a cut begins; may lie outside the image.
struct Corner {
  int64_t top = 0;
  int64_t left = 0;
};

/// Where a cut of size `wanted` lies in the middle of `size`, rounded to even as Python does.
Corner centre(const ImageSize& size, const ImageSize& wanted);

/// The part of `image` (f32 [channels, height, width]) from `corner`; zeros where there is none.
Array cut(const Array& image, const Corner& corner, const ImageSize& size);

}  // namespace accel
