#include "runner/formats/image.h"

#include "core/error.h"
#include "runner/formats/jpeg.h"
#include "runner/formats/png.h"

namespace accel {
namespace {

constexpr int64_t kMaxPixels = int64_t{64} << 20;

/// ITU-R 601 luma in 16-bit fixed point, rounded: what Pillow computes.
uint8_t luma(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

Array converted(const Array& pixels, int64_t channels) {
  Array out(DType::kU8, {pixels.shape()[0], pixels.shape()[1], channels});
  const uint8_t* from = pixels.as<uint8_t>().data();
  uint8_t* to = out.mutable_as<uint8_t>().data();
  const int64_t count = pixels.shape()[0] * pixels.shape()[1];
  if (channels == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = luma(from + 3 * i);
  } else {
    for (int64_t i = 0; i < 3 * count; ++i) to[i] = from[i / 3];
  }
  return out;
}

[[noreturn]] void refuse_unknown(const std::string& name) {
  throw DataError("'" + name + "' is neither a JPEG nor a PNG image");
}

}  // namespace

ImageSize image_size(std::span<const std::byte> file, const std::string& name) {
  if (is_jpeg(file)) return jpeg_size(file, name);
  if (is_png(file)) return png_size(file, name);
  refuse_unknown(name);
}

Array decode_image(std::span<const std::byte> file, Channels channels, const std::string& name) {
  if (!is_jpeg(file) && !is_png(file)) refuse_unknown(name);
  Array pixels = is_jpeg(file) ? decode_jpeg(file, name) : decode_png(file, name);
  const int64_t wanted = channels == Channels::kRgb ? 3 : 1;
  return pixels.shape()[2] == wanted ? pixels : converted(pixels, wanted);
}

void check_image_claim(const ImageSize& size, size_t bytes, size_t pixels_per_byte,
                       const std::string& name) {
  const std::string claim = "'" + name + "' claims " + std::to_string(size.width) + " x " +
                            std::to_string(size.height) + " pixels";
  // Both formats keep sizes in 31 bits, so that the product fits.
  const int64_t pixels = size.width * size.height;
  if (pixels > kMaxPixels) throw DataError(claim + "; at most 64 Mpx are read");
  if (static_cast<size_t>(pixels) / pixels_per_byte > bytes) {
    throw DataError(claim + ", more than its " + std::to_string(bytes) + " bytes can hold");
  }
}

}  // namespace accel
