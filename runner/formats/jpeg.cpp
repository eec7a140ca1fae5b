#include "runner/formats/jpeg.h"

#include <csetjmp>
#include <cstdio>
#include <vector>

#include <jpeglib.h>
// Needs jpeglib.h before it.
#include <jerror.h>

#include "core/error.h"

namespace accel {
namespace {

// A block of 8 x 8 pixels takes at least a bit; twice that for the oddest sampling factors.
constexpr size_t kJpegPixelsPerByte = 1024;
// Each scan of a progressive image costs a pass over all of it.
constexpr int kMaxScans = 200;

/// A decompressor whose errors come back to where setjmp was called, never further.
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

void leave(j_common_ptr info) {
  auto* decoder = static_cast<JpegDecoder*>(info->client_data);
  info->err->format_message(info, decoder->message);
  std::longjmp(decoder->escape, 1);
}

void heed_warning(j_common_ptr info, int level) {
  // libjpeg fills a cut image up with grey and goes on. Other flaws are common in the wild, and
  // Pillow does not mind them either.
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) leave(info);
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
  errors.error_exit = &leave;
  errors.emit_message = &heed_warning;
  progress.progress_monitor = &limit_scans;
}

/// Runs libjpeg calls; false when one failed, with decoder.message saying why. `calls` must be a
/// lambda that owns nothing: the way out of it is a longjmp.
template <class Calls>
bool guarded(JpegDecoder& decoder, const Calls& calls) {
  if (setjmp(decoder.escape)) return false;
  calls();
  return true;
}

[[noreturn]] void refuse(const JpegDecoder& decoder, const std::string& name) {
  throw DataError("'" + name + "' is a damaged JPEG: " + decoder.message);
}

/// Reads the header and chooses Pillow's output colours.
ImageSize open_jpeg(JpegDecoder& decoder, std::span<const std::byte> file,
                    const std::string& name) {
  jpeg_decompress_struct& info = decoder.info;
  const bool good = guarded(decoder, [&] {
    jpeg_create_decompress(&info);
    info.progress = &decoder.progress;
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&info, TRUE);
    if (info.num_components == 1) info.out_color_space = JCS_GRAYSCALE;
    if (info.num_components == 3) info.out_color_space = JCS_RGB;
    if (info.num_components == 4) info.out_color_space = JCS_CMYK;
  });
  if (!good) refuse(decoder, name);
  if (info.num_components == 2 || info.num_components > 4) {
    throw DataError("'" + name + "' has " + std::to_string(info.num_components) +
                    " channels; 1, 3 and 4 are read");
  }
  const ImageSize size{info.image_height, info.image_width};
  check_image_claim(size, file.size(), kJpegPixelsPerByte, name);
  return size;
}

/// `(255 - k) - c * (255 - k) / 255` rounded, as Pillow turns inks into light.
uint8_t light_of(uint8_t ink, uint8_t black) {
  const int white = 255 - black;
  const int product = ink * white + 128;
  return static_cast<uint8_t>(white - (((product >> 8) + product) >> 8));
}

Array from_cmyk(const Array& inks, bool inverted) {
  Array out(DType::kU8, {inks.shape()[0], inks.shape()[1], 3});
  const auto from = inks.as<uint8_t>();
  const auto to = out.mutable_as<uint8_t>();
  const uint8_t flip = inverted ? 0xff : 0;  // Adobe writes 255 for no ink
  for (size_t i = 0; i < from.size() / 4; ++i) {
    const uint8_t black = from[4 * i + 3] ^ flip;
    for (size_t c = 0; c < 3; ++c) to[3 * i + c] = light_of(from[4 * i + c] ^ flip, black);
  }
  return out;
}

}  // namespace

bool is_jpeg(std::span<const std::byte> file) {
  return file.size() >= 3 && file[0] == std::byte{0xff} && file[1] == std::byte{0xd8} &&
         file[2] == std::byte{0xff};
}

ImageSize jpeg_size(std::span<const std::byte> file, const std::string& name) {
  JpegDecoder decoder;
  return open_jpeg(decoder, file, name);
}

Array decode_jpeg(std::span<const std::byte> file, const std::string& name) {
  JpegDecoder decoder;
  const ImageSize size = open_jpeg(decoder, file, name);
  jpeg_decompress_struct& info = decoder.info;
  const int64_t channels = info.num_components;
  Array pixels(DType::kU8, {size.height, size.width, channels});
  uint8_t* const first = pixels.mutable_as<uint8_t>().data();
  const size_t stride = static_cast<size_t>(size.width * channels);
  const bool good = guarded(decoder, [&] {
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = first + info.output_scanline * stride;
      jpeg_read_scanlines(&info, &row, 1);
    }
  });
  if (!good) refuse(decoder, name);
  return channels == 4 ? from_cmyk(pixels, info.saw_Adobe_marker) : pixels;
}

}  // namespace accel
