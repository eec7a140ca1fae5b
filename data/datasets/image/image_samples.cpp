#include "data/datasets/image/image_samples.h"

#include "data/transforms/image_ops.h"
#include "formats/image/exif.h"

namespace accel {
namespace {

constexpr int64_t kSizeProbes = 256;  // number of headers read at startup

}  // namespace

Rule<std::vector<int64_t>> optional_image_size_rule() {
  Rule<std::vector<int64_t>> size = image_size_rule();
  const auto given = size.holds;
  size.holds = [given](const std::vector<int64_t>& v) { return v.empty() || given(v); };
  size.json = "\"maxItems\": 2";
  return size;
}

ImageSize own_image_size(std::span<const std::byte> file, const ImageDecoding& decoding,
                         const std::string& name) {
  const ImageSize size = image_size(file, name);
  return decoding.exif_orientation ? upright_size(size, exif_orientation(file)) : size;
}

Array image_sample(std::span<const std::byte> file, const ImageDecoding& decoding,
                   const std::string& name) {
  Array pixels = decode_image(file, decoding.channels, name);
  if (decoding.exif_orientation) pixels = upright(pixels, exif_orientation(file));
  const ImageSize own{pixels.shape()[0], pixels.shape()[1]};
  const ImageSize size = decoding.size.empty() ? own : resized(own, decoding.size);
  return resample_bytes(pixels, size, decoding.interpolation);
}

ImageSize common_image_size(int64_t count, const std::vector<int64_t>& size,
                            const std::function<ImageSize(int64_t index)>& size_of) {
  if (size.size() == 2) return exact_size(size);
  ImageSize common;
  bool first = true;
  probe(count, kSizeProbes, [&](int64_t i) {
    ImageSize found = size_of(i);
    if (!size.empty()) found = resized(found, size);
    if (first) common = found;
    if (found != common) common = {};
    first = false;
  });
  return common;
}

DataShape image_shape(Channels channels, ImageSize size, const LabelMap& classes) {
  return {.input = {channels == Channels::kRgb ? 3 : 1, size.height, size.width},
          .classes = classes.count(),
          .labels = classes.names(),
          .labels_found = classes.is_found()};
}

}  // namespace accel
