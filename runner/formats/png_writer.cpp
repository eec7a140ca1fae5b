#include "runner/formats/png_writer.h"

#include <stdexcept>

#include <png.h>

#include "core/error.h"

namespace accel {

std::string encode_png(const ImageSize& size, int64_t channels, std::span<const uint8_t> pixels) {
  const int64_t bytes = size.height * size.width * channels;
  if ((channels != 1 && channels != 3) || size.height < 1 || size.width < 1 ||
      bytes != static_cast<int64_t>(pixels.size())) {
    throw std::logic_error("a picture whose pixels do not fit its size");
  }
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(size.width);
  image.height = static_cast<png_uint_32>(size.height);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::string out(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t used = out.size();
  if (!png_image_write_to_memory(&image, out.data(), &used, 0, pixels.data(), 0, nullptr)) {
    throw Error(ExitCode::kMemory, std::string("cannot make a PNG image: ") + image.message);
  }
  out.resize(used);
  return out;
}

}  // namespace accel
