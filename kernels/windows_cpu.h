// The windows that a convolution looks at, over images in memory.
#pragma once

#include <cstdint>

namespace accel {

/// Sizes of images and of what runs over them, rows before columns. A window has a number for each
/// of its places in each channel; numbers beyond the images are zeros.
struct ImageWindows {
  int64_t channels;
  int64_t in[2];       ///< an image's
  int64_t window[2];   ///< a window's
  int64_t stride[2];   ///< between windows
  int64_t padding[2];  ///< before the first row and column
  int64_t out[2];      ///< how many windows there are

  int64_t image() const { return channels * in[0] * in[1]; }
  int64_t positions() const { return out[0] * out[1]; }
  int64_t numbers() const { return channels * window[0] * window[1]; }
};

/// columns [positions, channels, window] = what the windows see of one image.
void gather_windows_cpu(const float* image, const ImageWindows& sizes, float* columns);
/// The same of any numbers of 16 bits, whose zero has no bit set.
void gather_windows_cpu(const uint16_t* image, const ImageWindows& sizes, uint16_t* columns);
/// The other way: adds each number to where it was seen.
void scatter_windows_cpu(const float* columns, const ImageWindows& sizes, float* image);

}  // namespace accel
