#include "runner/draft/image_processor.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/whole_number.h"
#include "core/recipe/number_text.h"
#include "runner/draft/model_folder.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr auto kFile = "preprocessor_config.json";
/// Where transformers 5 saves the image processor of a model that has a tokenizer too.
constexpr auto kNestedFile = "processor_config.json";
constexpr int64_t kUsualSide = 224;
/// ConvNextImageProcessor crops images of a smaller side only.
constexpr int64_t kUncroppedSide = 384;

/// What a class of image processors takes for the keys that a file leaves out.
struct ProcessorClass {
  std::string_view name;  ///< without "ImageProcessor"
  /// [height, width], or one value for the shorter side.
  std::vector<int64_t> size = {kUsualSide, kUsualSide};
  bool number_is_square = true;  ///< a `size` of one number: both sides, else the shorter one
  bool is_cropped = false;
  int resample = 3;
  std::vector<double> mean = {0.5};
  std::vector<double> std = {0.5};
};

/// The first one is taken for unknown classes.
const std::vector<ProcessorClass>& processor_classes() {
  static const std::vector<double> clip_mean = {0.48145466, 0.4578275, 0.40821073};
  static const std::vector<double> clip_std = {0.26862954, 0.26130258, 0.27577711};
  static const std::vector<ProcessorClass> all = {
      {.name = "ViT", .resample = 2},
      {.name = "DeiT", .size = {256, 256}, .is_cropped = true},
      {.name = "Beit"},
      {.name = "Siglip", .number_is_square = false},
      {.name = "ConvNext", .size = {kUncroppedSide}, .number_is_square = false},
      {"CLIP", {kUsualSide}, false, true, 3, clip_mean, clip_std},
      {"Bit", {kUsualSide}, false, true, 3, clip_mean, clip_std},
      {"MobileNetV1", {256}, false, true, 2, {0.5}, {0.5}},
      {"MobileNetV2", {256}, false, true, 2, {0.5}, {0.5}}};
  return all;
}

/// The keys of an image processor, in the file `path`.
class ProcessorKeys {
 public:
  ProcessorKeys(const json& values, const std::filesystem::path& path)
      : values_(values), path_(path.string()), file_(path.filename().string()) {}

  const std::string& file() const { return file_; }

  bool flag(const char* key, bool usual) const {
    if (values_.contains(key) && values_[key].is_null()) return false;
    const json* found = find(key);
    if (!found) return usual;
    if (!found->is_boolean()) refuse(key, "true or false");
    return found->get<bool>();
  }
  double number(const char* key, double usual) const {
    const json* found = find(key);
    if (!found) return usual;
    if (!found->is_number()) refuse(key, "a number");
    return found->get<double>();
  }
  std::string text(const char* key) const {
    const json* found = find(key);
    return found && found->is_string() ? found->get<std::string>() : "";
  }
  std::vector<double> numbers(const char* key, const std::vector<double>& usual) const {
    const json* found = find(key);
    if (!found) return usual;
    std::vector<double> out;
    for (const json& each : found->is_array() ? *found : json::array({*found})) {
      if (!each.is_number()) refuse(key, "a list of numbers");
      out.push_back(each.get<double>());
    }
    if (out.empty()) refuse(key, "a list of numbers");
    return out;
  }
  /// {height, width}, {shortest_edge}, a number or [height, width]: [height, width], or one value
  /// for the shorter side.
  std::vector<int64_t> size(const char* key, bool number_is_square) const {
    const json* found = find(key);
    if (!found) return {};
    const auto side = [&](const json& value) {
      const auto whole = whole_number<int64_t>(value);
      if (!whole || *whole < 1) refuse(key, "sizes of at least 1");
      return *whole;
    };
    if (found->is_number()) {
      const int64_t value = side(*found);
      return number_is_square ? std::vector{value, value} : std::vector{value};
    }
    if (found->is_array() && found->size() == 2) return {side((*found)[0]), side((*found)[1])};
    if (found->is_object() && found->contains("shortest_edge") && !found->contains("longest_edge"))
      return {side((*found)["shortest_edge"])};
    if (found->is_object() && found->contains("height") && found->contains("width"))
      return {side((*found)["height"]), side((*found)["width"])};
    refuse(key, "{height, width} or {shortest_edge}");
  }

 private:
  const json* find(const char* key) const {
    const auto found = values_.find(key);
    return found == values_.end() || found->is_null() ? nullptr : &*found;
  }
  [[noreturn]] void refuse(const char* key, const char* wanted) const {
    throw DataError(accel::text("'{}' has {} for '{}', and {} is wanted", path_,
                                values_.at(key).dump(), key, wanted));
  }

  const json& values_;
  std::string path_;
  std::string file_;
};

/// The class that the file names, else the one of the model type in `config`.
const ProcessorClass& processor_class(const ProcessorKeys& keys, const json& config,
                                      ImageProcessor& out) {
  const std::string written = keys.text("image_processor_type").empty()
                                  ? keys.text("feature_extractor_type")
                                  : keys.text("image_processor_type");
  std::string name = written;
  for (const std::string_view suffix : {"Fast", "Pil", "ImageProcessor", "FeatureExtractor"}) {
    if (name.ends_with(suffix)) name.erase(name.size() - suffix.size());
  }
  if (written.empty()) {
    const std::string model = config.value("model_type", "");
    name = model == "resnet" ? "ConvNext" : model.starts_with("clip") ? "CLIP" : "ViT";
  }
  for (const ProcessorClass& each : processor_classes()) {
    if (each.name == name) return each;
  }
  out.notes.push_back(
      text("{}: '{}' is not available, and is read as ViTImageProcessor", keys.file(), written));
  return processor_classes().front();
}

/// Pillow's number of a filter.
void read_interpolation(const ProcessorKeys& keys, const ProcessorClass& usual,
                        ImageProcessor& out) {
  const auto filter = static_cast<int64_t>(keys.number("resample", usual.resample));
  if (filter == 0) out.interpolation = "nearest";
  if (filter == 3) out.interpolation = "bicubic";
  if (filter == 0 || filter == 2 || filter == 3) return;
  out.interpolation = "bicubic";
  const char* const name = filter == 1   ? "Lanczos"
                           : filter == 4 ? "box"
                           : filter == 5 ? "Hamming"
                                         : "unknown";
  out.notes.push_back(text("{}: 'resample' is {} ({}), which is not available: bicubic is used",
                           keys.file(), filter, name));
}

void read_processor_sizes(const ProcessorKeys& keys, const ProcessorClass& usual,
                          ImageProcessor& out) {
  if (keys.flag("do_resize", true)) {
    out.size = keys.size("size", usual.number_is_square);
    if (out.size.empty()) out.size = usual.size;
  }
  if (usual.name == "ConvNext" && !out.size.empty()) {
    const int64_t side = out.size.front();
    const double share = keys.number("crop_pct", kUsualSide / 256.0);
    if (side < kUncroppedSide) {
      out.size = {static_cast<int64_t>(static_cast<double>(side) / share)};
      out.crop = {side, side};
    } else {
      out.size = {side, side};
    }
  }
  if (!keys.flag("do_center_crop", usual.is_cropped)) return;
  out.crop = keys.size("crop_size", true);
  if (out.crop.empty()) out.crop = {kUsualSide, kUsualSide};
}

/// Brings mean and deviation to values in [0, 1], whatever the factor of the pixels' bytes.
void read_normalization(const ProcessorKeys& keys, const ProcessorClass& usual,
                        ImageProcessor& out) {
  const double byte = 1 / 255.0;
  const double factor = keys.flag("do_rescale", true) ? keys.number("rescale_factor", byte) : 1;
  const double scale = std::abs(factor / byte - 1) < 1e-6 ? 1 : factor * 255;
  if (keys.flag("do_normalize", true)) {
    out.mean = keys.numbers("image_mean", usual.mean);
    out.std = keys.numbers("image_std", usual.std);
  } else if (scale != 1) {
    out.mean = {0};
    out.std = {1};
  }
  for (double& each : out.mean) each /= scale;
  for (double& each : out.std) each /= scale;
}

void note_others(const ProcessorKeys& keys, ImageProcessor& out) {
  for (const char* key :
       {"do_pad", "do_thumbnail", "do_align_long_axis", "do_crop_margin", "do_flip_channel_order",
        "do_reduce_labels", "do_rotate", "rescale_offset"}) {
    if (!keys.flag(key, false)) continue;
    out.notes.push_back(text("{}: '{}' has no counterpart, and is left out", keys.file(), key));
  }
}

/// Of a folder without a file.
ImageProcessor guessed_processor(const json& config) {
  const auto side =
      config.contains("image_size") ? whole_number<int64_t>(config["image_size"]) : std::nullopt;
  ImageProcessor out;
  out.size.assign(2, side.value_or(kUsualSide));
  out.mean = out.std = {0.5};
  out.notes.push_back(
      text("the model's folder has no {}: {} x {} pixels, mean 0.5 and deviation 0.5 are a guess",
           kFile, out.size[0], out.size[1]));
  return out;
}

}  // namespace

std::vector<std::string> size_lines(const ImageProcessor& processor) {
  if (processor.size.empty()) return {};
  const auto number = [](int64_t side) { return std::to_string(side); };
  std::vector<std::string> lines = {text("size: [{}]{}", joined(processor.size, ", ", number),
                                         processor.size.size() == 1 ? "  # the shorter side" : "")};
  if (processor.interpolation != "bilinear") {
    lines.push_back("interpolation: " + processor.interpolation);
  }
  return lines;
}

std::vector<std::string> processor_transforms(const ImageProcessor& processor,
                                              const std::string& augmentation) {
  std::vector<std::string> lines;
  if (!processor.crop.empty()) {
    lines.push_back(
        text("- {type: center_crop, size: [{}, {}]}", processor.crop[0], processor.crop[1]));
  }
  if (!augmentation.empty()) lines.push_back(augmentation);
  if (!processor.mean.empty()) {
    lines.push_back(text("- {type: normalize, mean: [{}], std: [{}]}",
                         joined(processor.mean, ", ", show_number),
                         joined(processor.std, ", ", show_number)));
  }
  return lines;
}

ImageProcessor read_image_processor(const std::filesystem::path& folder, const json& config) {
  std::filesystem::path path = folder / kFile;
  json values;
  if (std::filesystem::is_regular_file(folder / kNestedFile)) {
    values = read_config(folder / kNestedFile).value("image_processor", json());
  }
  if (values.is_object()) {
    path = folder / kNestedFile;
  } else if (std::filesystem::is_regular_file(path)) {
    values = read_config(path);
  } else {
    return guessed_processor(config);
  }
  const ProcessorKeys keys(values, path);
  ImageProcessor out;
  const ProcessorClass& usual = processor_class(keys, config, out);
  read_processor_sizes(keys, usual, out);
  read_interpolation(keys, usual, out);
  read_normalization(keys, usual, out);
  out.notes.push_back(text("sizes and normalization are those of the model's {}", keys.file()));
  note_others(keys, out);
  return out;
}

}  // namespace accel
