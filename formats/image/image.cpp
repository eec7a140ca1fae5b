#include "formats/image/image.h"

#include <jerror.h>
#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "formats/archive/compression.h"

// Needs jpeglib.h before it.

namespace accel {
namespace {

constexpr int64_t kMaxPixels = int64_t{64} << 20;

/// Throws DataError when `size` is above 64 Mpx or, at `pixels_per_byte`, beyond what `bytes` hold.
void check_image_claim(const ImageSize& size, size_t bytes, size_t pixels_per_byte,
                       const std::string& name) {
  const std::string claim = text("'{}' claims {} x {} pixels", name, size.width, size.height);
  // Both formats store sizes in 31 bits: the product does not overflow.
  const int64_t pixels = size.width * size.height;
  if (pixels > kMaxPixels) throw DataError(text("{}, at most 64 Mpx wanted", claim));
  if (static_cast<size_t>(pixels) / pixels_per_byte > bytes) {
    throw DataError(text("{}, more than its {} bytes can hold", claim, bytes));
  }
}

// A block of 8 x 8 pixels takes at least a bit; twice that for the oddest sampling factors.
constexpr size_t kJpegPixelsPerByte = 1024;
// Each scan of a progressive image is a pass over all of it.
constexpr int kMaxScans = 200;

/// A libjpeg decompressor whose errors return to setjmp.
struct JpegDecoder {
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  jpeg_decompress_struct info = {};
  std::jmp_buf escape = {};
  char message[JMSG_LENGTH_MAX] = {};

  JpegDecoder();
  ~JpegDecoder() { jpeg_destroy_decompress(&info); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;
};

void leave_jpeg(j_common_ptr info) {
  auto* decoder = static_cast<JpegDecoder*>(info->client_data);
  info->err->format_message(info, decoder->message);
  std::longjmp(decoder->escape, 1);
}

void on_jpeg_warning(j_common_ptr info, int level) {
  // libjpeg fills the rest of a truncated image with grey. Other warnings are ignored, as by
  // Pillow.
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) leave_jpeg(info);
}

void limit_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  auto* decoder = static_cast<JpegDecoder*>(info->client_data);
  std::snprintf(decoder->message, sizeof decoder->message, "more than %d scans", kMaxScans);
  std::longjmp(decoder->escape, 1);
}

JpegDecoder::JpegDecoder() {
  info.err = jpeg_std_error(&errors);
  info.client_data = this;
  errors.error_exit = &leave_jpeg;
  errors.emit_message = &on_jpeg_warning;
  progress.progress_monitor = &limit_scans;
}

/// Runs libjpeg calls; false on failure, with the reason in decoder.message. `calls` must own
/// nothing: errors leave it by longjmp.
template <class Calls>
bool guarded_jpeg(JpegDecoder& decoder, const Calls& calls) {
  if (setjmp(decoder.escape)) return false;
  calls();
  return true;
}

[[noreturn]] void refuse_jpeg(const JpegDecoder& decoder, const std::string& name) {
  throw DataError(text("'{}' is a damaged JPEG: {}", name, decoder.message));
}

/// Reads the header and selects Pillow's output colours.
ImageSize open_jpeg(JpegDecoder& decoder, std::span<const std::byte> file,
                    const std::string& name) {
  jpeg_decompress_struct& info = decoder.info;
  const bool good = guarded_jpeg(decoder, [&] {
    jpeg_create_decompress(&info);
    info.progress = &decoder.progress;
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&info, TRUE);
    if (info.num_components == 1) info.out_color_space = JCS_GRAYSCALE;
    if (info.num_components == 3) info.out_color_space = JCS_RGB;
    if (info.num_components == 4) info.out_color_space = JCS_CMYK;
  });
  if (!good) refuse_jpeg(decoder, name);
  if (info.num_components == 2 || info.num_components > 4) {
    throw DataError(text("'{}' has {} channels, 1, 3 or 4 wanted", name, info.num_components));
  }
  const ImageSize size{info.image_height, info.image_width};
  check_image_claim(size, file.size(), kJpegPixelsPerByte, name);
  return size;
}

/// Pillow's CMYK to RGB: `(255 - k) - c * (255 - k) / 255`, rounded.
uint8_t rgb_of(uint8_t ink, uint8_t black) {
  const int white = 255 - black;
  const int product = ink * white + 128;
  return static_cast<uint8_t>(white - (((product >> 8) + product) >> 8));
}

Array from_cmyk(const Array& inks) {
  Array out(DType::kU8, {inks.shape()[0], inks.shape()[1], 3});
  const auto from = inks.as<uint8_t>();
  const auto to = out.mutable_as<uint8_t>();
  constexpr uint8_t kFlip = 0xff;  // as Adobe, Pillow takes 255 for no ink in all files
  for (size_t i = 0; i < from.size() / 4; ++i) {
    const uint8_t black = from[4 * i + 3] ^ kFlip;
    for (size_t c = 0; c < 3; ++c) to[3 * i + c] = rgb_of(from[4 * i + c] ^ kFlip, black);
  }
  return out;
}

bool is_jpeg(std::span<const std::byte> file) {
  return file.size() >= 3 && file[0] == std::byte{0xff} && file[1] == std::byte{0xd8} &&
         file[2] == std::byte{0xff};
}

ImageSize jpeg_size(std::span<const std::byte> file, const std::string& name) {
  JpegDecoder decoder;
  return open_jpeg(decoder, file, name);
}

/// u8 [height, width, 1] of a grey image, else [height, width, 3] in RGB, converted from CMYK.
Array decode_jpeg(std::span<const std::byte> file, const std::string& name) {
  JpegDecoder decoder;
  const ImageSize size = open_jpeg(decoder, file, name);
  jpeg_decompress_struct& info = decoder.info;
  const int64_t channels = info.num_components;
  Array pixels(DType::kU8, {size.height, size.width, channels});
  uint8_t* const first = pixels.mutable_as<uint8_t>().data();
  const size_t stride = static_cast<size_t>(size.width * channels);
  const bool good = guarded_jpeg(decoder, [&] {
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = first + info.output_scanline * stride;
      jpeg_read_scanlines(&info, &row, 1);
    }
  });
  if (!good) refuse_jpeg(decoder, name);
  return channels == 4 ? from_cmyk(pixels) : pixels;
}

/// A libpng reader over memory whose errors return to setjmp.
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
  if (count > decoder->rest.size()) png_error(png, "the file is truncated");
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
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff);  // check_image_claim() limits pixels
}

/// As guarded_jpeg().
template <class Calls>
bool guarded_png(PngDecoder& decoder, const Calls& calls) {
  if (setjmp(decoder.escape)) return false;
  calls();
  return true;
}

[[noreturn]] void refuse_png(const PngDecoder& decoder, const std::string& name) {
  throw DataError(text("'{}' is a damaged PNG: {}", name, decoder.message));
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

/// 16-bit grey without alpha, which Pillow clips at 255. Of other 16-bit values it takes the high
/// byte.
bool is_clipped(png_structp png, png_infop info) {
  return png_get_color_type(png, info) == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png, info) == 16;
}

/// Selects grey or RGB output, 16-bit where it is_clipped() and 8-bit otherwise.
void choose_output(png_structp png, png_infop info) {
  const png_byte colour = png_get_color_type(png, info);
  if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (!(colour & PNG_COLOR_MASK_COLOR)) png_set_expand_gray_1_2_4_to_8(png);
  if (!is_clipped(png, info)) png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
}

bool is_png(std::span<const std::byte> file) {
  return file.size() >= 8 && png_sig_cmp(reinterpret_cast<png_const_bytep>(file.data()), 0, 8) == 0;
}

ImageSize png_size(std::span<const std::byte> file, const std::string& name) {
  PngDecoder decoder(file);
  return open_png(decoder, file.size(), name);
}

/// The values of pairs of bytes, the high one first, at most 255.
Array clipped(const Array& pairs, const Shape& shape) {
  Array out(DType::kU8, shape);
  const auto from = pairs.as<uint8_t>();
  const auto to = out.mutable_as<uint8_t>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = from[2 * i] == 0 ? from[2 * i + 1] : 255;
  return out;
}

/// u8 [height, width, 1] of a grey image, else [height, width, 3] in RGB. Palettes are expanded,
/// alpha is dropped.
Array decode_png(std::span<const std::byte> file, const std::string& name) {
  PngDecoder decoder(file);
  const ImageSize size = open_png(decoder, file.size(), name);
  const bool grey = !(png_get_color_type(decoder.png, decoder.info) & PNG_COLOR_MASK_COLOR);
  const bool clips = is_clipped(decoder.png, decoder.info);
  const Shape shape = {size.height, size.width, grey ? 1 : 3};
  const int64_t row_bytes = size.width * shape[2] * (clips ? 2 : 1);
  Array pixels(DType::kU8, {size.height, row_bytes});
  std::vector<png_bytep> rows(static_cast<size_t>(size.height));
  const auto stride = static_cast<size_t>(row_bytes);
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
  return clips ? clipped(pixels, shape) : Array(DType::kU8, shape, pixels.data(), pixels.owner());
}

/// ITU-R 601 luma in 16-bit fixed point, rounded, as Pillow.
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

[[noreturn]] void refuse_image(const std::string& name) {
  throw DataError(text("'{}' is neither a JPEG nor a PNG image", name));
}

}  // namespace

ImageSize image_size(std::span<const std::byte> file, const std::string& name) {
  if (is_jpeg(file)) return jpeg_size(file, name);
  if (is_png(file)) return png_size(file, name);
  refuse_image(name);
}

Array decode_image(std::span<const std::byte> file, Channels channels, const std::string& name) {
  if (!is_jpeg(file) && !is_png(file)) refuse_image(name);
  Array pixels = is_jpeg(file) ? decode_jpeg(file, name) : decode_png(file, name);
  const int64_t wanted = channels == Channels::kRgb ? 3 : 1;
  return pixels.shape()[2] == wanted ? pixels : converted(pixels, wanted);
}

std::string encode_png(const ImageSize& size, int64_t channels, std::span<const uint8_t> pixels) {
  const int64_t bytes = size.height * size.width * channels;
  if ((channels != 1 && channels != 3) || size.height < 1 || size.width < 1 ||
      bytes != static_cast<int64_t>(pixels.size())) {
    throw std::logic_error("the number of pixels does not match the size of the image");
  }
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(size.width);
  image.height = static_cast<png_uint_32>(size.height);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::string out(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t used = out.size();
  if (!png_image_write_to_memory(&image, out.data(), &used, 0, pixels.data(), 0, nullptr)) {
    throw IoError(text("cannot encode an image of {} x {} pixels as PNG: {}", size.width,
                       size.height, image.message));
  }
  out.resize(used);
  return out;
}

}  // namespace accel
