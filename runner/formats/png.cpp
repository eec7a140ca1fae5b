#include "runner/formats/png.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <vector>

#include <png.h>

#include "core/error.h"
#include "runner/formats/gzip.h"

namespace accel {
namespace {

/// A libpng reader over memory whose errors come back to where setjmp was called.
struct PngDecoder {
  std::span<const std::byte> rest;
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::jmp_buf escape = {};
  char message[128] = {};

  explicit PngDecoder(std::span<const std::byte> file);
  ~PngDecoder() { png_destroy_read_struct(&png, &info, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;
};

void leave_png(png_structp png, png_const_charp message) {
  auto* decoder = static_cast<PngDecoder*>(png_get_error_ptr(png));
  std::snprintf(decoder->message, sizeof decoder->message, "%s", message);
  std::longjmp(decoder->escape, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

void read_png_bytes(png_structp png, png_bytep out, size_t count) {
  auto* decoder = static_cast<PngDecoder*>(png_get_io_ptr(png));
  if (count > decoder->rest.size()) png_error(png, "the file is cut short");
  std::copy_n(decoder->rest.data(), count, reinterpret_cast<std::byte*>(out));
  decoder->rest = decoder->rest.subspan(count);
}

PngDecoder::PngDecoder(std::span<const std::byte> file) : rest(file) {
  png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &leave_png, &ignore_warning);
  info = png ? png_create_info_struct(png) : nullptr;
  if (!info) {
    png_destroy_read_struct(&png, &info, nullptr);
    throw Error(ExitCode::kMemory, "no memory to decode a PNG image");
  }
  png_set_read_fn(png, this, &read_png_bytes);
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff);  // our own limit counts pixels
}

/// Runs libpng calls; false when one failed, with decoder.message saying why. `calls` must be a
/// lambda that owns nothing: the way out of it is a longjmp.
template <class Calls>
bool guarded_png(PngDecoder& decoder, const Calls& calls) {
  if (setjmp(decoder.escape)) return false;
  calls();
  return true;
}

[[noreturn]] void refuse_png(const PngDecoder& decoder, const std::string& name) {
  throw DataError("'" + name + "' is a damaged PNG: " + decoder.message);
}

ImageSize open_png(PngDecoder& decoder, size_t bytes, const std::string& name) {
  if (!guarded_png(decoder, [&] { png_read_info(decoder.png, decoder.info); })) {
    refuse_png(decoder, name);
  }
  const ImageSize size{png_get_image_height(decoder.png, decoder.info),
                       png_get_image_width(decoder.png, decoder.info)};
  const size_t bits = size_t{png_get_bit_depth(decoder.png, decoder.info)} *
                      png_get_channels(decoder.png, decoder.info);
  check_image_claim(size, bytes, kMaxInflation * 8 / bits, name);
  return size;
}

/// Asks for bytes of grey or RGB, whatever the file holds.
void choose_output(png_structp png, png_infop info) {
  const png_byte colour = png_get_color_type(png, info);
  if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (!(colour & PNG_COLOR_MASK_COLOR)) png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
}

}  // namespace

bool is_png(std::span<const std::byte> file) {
  return file.size() >= 8 && png_sig_cmp(reinterpret_cast<png_const_bytep>(file.data()), 0, 8) == 0;
}

ImageSize png_size(std::span<const std::byte> file, const std::string& name) {
  PngDecoder decoder(file);
  return open_png(decoder, file.size(), name);
}

Array decode_png(std::span<const std::byte> file, const std::string& name) {
  PngDecoder decoder(file);
  const ImageSize size = open_png(decoder, file.size(), name);
  const bool grey = !(png_get_color_type(decoder.png, decoder.info) & PNG_COLOR_MASK_COLOR);
  const int64_t channels = grey ? 1 : 3;
  Array pixels(DType::kU8, {size.height, size.width, channels});
  std::vector<png_bytep> rows(static_cast<size_t>(size.height));
  const size_t stride = static_cast<size_t>(size.width * channels);
  for (size_t y = 0; y < rows.size(); ++y) {
    rows[y] = pixels.mutable_as<uint8_t>().data() + y * stride;
  }
  const bool good = guarded_png(decoder, [&] {
    choose_output(decoder.png, decoder.info);
    if (png_get_rowbytes(decoder.png, decoder.info) != stride) {
      png_error(decoder.png, "an unexpected row size");
    }
    png_read_image(decoder.png, rows.data());
    png_read_end(decoder.png, nullptr);
  });
  if (!good) refuse_png(decoder, name);
  return pixels;
}

}  // namespace accel
