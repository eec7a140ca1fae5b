#include "formats/image/exif.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace accel {
namespace {

/// An unsigned number at `at`; bytes beyond the end are 0.
uint64_t number_at(std::string_view bytes, size_t at, size_t count, bool little) {
  uint64_t value = 0;
  for (size_t i = 0; i < count && at + i < bytes.size(); ++i) {
    const auto byte = static_cast<uint64_t>(static_cast<unsigned char>(bytes[at + i]));
    value |= byte << (8 * (little ? i : count - 1 - i));
  }
  return value;
}

/// The TIFF structure in the first EXIF segment of a JPEG; empty without one.
std::string_view exif_of_jpeg(std::string_view file) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  constexpr uint64_t kExifSegment = 0xffe1, kScan = 0xffda, kMarkers = 0xff00;
  for (size_t at = 2; at + 4 <= file.size();) {
    const uint64_t marker = number_at(file, at, 2, false),
                   length = number_at(file, at + 2, 2, false);
    if (marker < kMarkers || marker == kScan || length < 2) return {};
    const std::string_view segment = file.substr(at + 4, length - 2);
    if (marker == kExifSegment && segment.starts_with(kExif)) return segment.substr(kExif.size());
    at += 2 + length;
  }
  return {};
}

/// The chunk eXIf of a PNG; empty without one.
std::string_view exif_of_png(std::string_view file) {
  constexpr size_t kSignature = 8, kChunk = 12;
  for (size_t at = kSignature; at + kChunk <= file.size();) {
    const uint64_t length = number_at(file, at, 4, false);
    if (length > file.size() - at - kChunk) return {};
    if (file.substr(at + 4, 4) == "eXIf") return file.substr(at + 8, length);
    at += kChunk + length;
  }
  return {};
}

int orientation_in(std::string_view tiff) {
  constexpr uint16_t kOrientation = 0x112;
  constexpr size_t kEntry = 12;
  const bool little = tiff.starts_with("II");
  if (!little && !tiff.starts_with("MM")) return 1;
  const size_t entries = number_at(tiff, 4, 4, little);
  const uint64_t count = number_at(tiff, entries, 2, little);
  for (uint64_t i = 0; i < count; ++i) {
    const size_t entry = entries + 2 + i * kEntry;
    if (entry + kEntry > tiff.size()) return 1;
    if (number_at(tiff, entry, 2, little) != kOrientation) continue;
    const uint64_t value = number_at(tiff, entry + 8, 2, little);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

bool swaps_sides(int orientation) {
  return orientation >= 5;
}

}  // namespace

int exif_orientation(std::span<const std::byte> file) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  if (bytes.starts_with("\xff\xd8")) return orientation_in(exif_of_jpeg(bytes));
  if (bytes.starts_with("\x89PNG")) return orientation_in(exif_of_png(bytes));
  return 1;
}

Array upright(const Array& pixels, int orientation) {
  if (orientation < 2) return pixels;
  const int64_t height = pixels.shape()[0], width = pixels.shape()[1];
  const auto channels = static_cast<size_t>(pixels.shape()[2]);
  const ImageSize size = upright_size({height, width}, orientation);
  Array out(DType::kU8, {size.height, size.width, pixels.shape()[2]});
  // Which of the source's sides run backwards.
  const bool rows_back =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool columns_back =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const uint8_t* from = pixels.as<uint8_t>().data();
  uint8_t* to = out.mutable_as<uint8_t>().data();
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      int64_t row = swaps_sides(orientation) ? x : y, column = swaps_sides(orientation) ? y : x;
      if (rows_back) row = height - 1 - row;
      if (columns_back) column = width - 1 - column;
      std::memcpy(to, from + static_cast<size_t>(row * width + column) * channels, channels);
      to += channels;
    }
  }
  return out;
}

ImageSize upright_size(const ImageSize& size, int orientation) {
  return swaps_sides(orientation) ? ImageSize{size.width, size.height} : size;
}

}  // namespace accel
