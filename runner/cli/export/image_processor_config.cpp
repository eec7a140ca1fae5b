#include "runner/cli/export/image_processor_config.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/text.h"
#include "core/recipe/scalar.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr size_t kChannels = 3;

const Node* setting_of(const Node& section, const char* key) {
  const Node::Entry* entry = section.find(key);
  return entry ? &entry->node : nullptr;
}

std::string setting_text(const Node& section, const char* key) {
  const Node* node = setting_of(section, key);
  return node && node->scalar() ? node->scalar()->text : "";
}

std::vector<double> setting_numbers(const Node& section, const char* key) {
  std::vector<double> out;
  const Node* node = setting_of(section, key);
  if (!node) return out;
  const Node::List single = {*node};
  for (const Node& item : node->list() ? *node->list() : single) {
    if (item.scalar()) out.push_back(parse_number(*item.scalar()).value.value_or(0));
  }
  return out;
}

/// Pillow's number of an interpolation.
int pillow_filter(const std::string& interpolation) {
  return interpolation == "nearest" ? 0 : interpolation == "bicubic" ? 3 : 2;
}

/// Collects the steps in their order.
class ProcessorSteps {
 public:
  /// Of a dataset: size and interpolation of decoded images. "" or why it cannot be written.
  std::string decode(const Node& dataset) {
    if (setting_text(dataset, "grayscale") == "true") {
      return "the images are grayscale, and image processors make three channels of them";
    }
    if (setting_text(dataset, "exif_orientation") == "true") {
      return "'exif_orientation' turns images, which image processors do not";
    }
    return setting_of(dataset, "size") ? resize(dataset) : "";
  }

  std::string apply(const Node& transform) {
    const std::string type = setting_text(transform, "type");
    if (type == "random_flip" || type == "random_erase") return "";  // of training only
    if (type == "resize") return resize(transform);
    if (type == "center_crop" || type == "random_crop") return crop(transform);
    if (type == "normalize") return normalize(transform);
    return text("the transform '{}' is none of image processors", type);
  }

  json config() const {
    const bool keeps_sides = size_.size() != 2;
    json out = {
        {"image_processor_type", crop_ || keeps_sides ? "CLIPImageProcessor" : "ViTImageProcessor"},
        {"do_convert_rgb", true},
        {"do_resize", !size_.empty()},
        {"resample", filter_},
        {"do_center_crop", crop_.has_value()},
        {"do_rescale", true},
        {"rescale_factor", 1 / 255.0},
        {"do_normalize", !mean_.empty()}};
    if (size_.size() == 1) out["size"] = {{"shortest_edge", size_[0]}};
    if (size_.size() == 2) out["size"] = {{"height", size_[0]}, {"width", size_[1]}};
    if (crop_) out["crop_size"] = {{"height", crop_->front()}, {"width", crop_->back()}};
    if (!mean_.empty()) {
      out["image_mean"] = mean_;
      out["image_std"] = std_;
    }
    return out;
  }

 private:
  std::string resize(const Node& options) {
    std::vector<int64_t> size;
    for (const double each : setting_numbers(options, "size")) {
      size.push_back(static_cast<int64_t>(each));
    }
    if (size.empty()) return "";
    if (!size_.empty()) return "images are resized twice";
    if (crop_ || !mean_.empty()) return "images are resized after another transform";
    size_ = size;
    filter_ = pillow_filter(setting_text(options, "interpolation"));
    return "";
  }

  std::string crop(const Node& options) {
    if (crop_) return "images are cropped twice";
    // Zeros around an image are not those of the normalized one.
    if (!mean_.empty()) return "images are cropped after they are normalized";
    const std::vector<double> size = setting_numbers(options, "size");
    crop_ = {static_cast<int64_t>(size.front()), static_cast<int64_t>(size.back())};
    return "";
  }

  std::string normalize(const Node& options) {
    if (!mean_.empty()) return "images are normalized twice";
    mean_ = setting_numbers(options, "mean");
    std_ = setting_numbers(options, "std");
    for (std::vector<double>* values : {&mean_, &std_}) {
      if (values->size() == 1) values->resize(kChannels, values->front());
    }
    return "";
  }

  std::vector<int64_t> size_;
  int filter_ = 2;
  std::optional<std::vector<int64_t>> crop_;
  std::vector<double> mean_, std_;
};

/// The eval dataset, or the first one of the training data.
const Node* dataset_of(const Node& data) {
  for (const char* key : {"eval", "train"}) {
    const Node* found = setting_of(data, key);
    if (!found) continue;
    if (found->list() && !found->list()->empty()) return &found->list()->front();
    if (found->map()) return found;
  }
  return nullptr;
}

}  // namespace

ImageProcessorConfig image_processor_config(const Node& data) {
  ProcessorSteps steps;
  const Node* dataset = dataset_of(data);
  std::string lack = dataset ? steps.decode(*dataset) : "the recipe names no dataset";
  const Node* transforms = setting_of(data, "transform");
  if (transforms && transforms->list()) {
    for (const Node& transform : *transforms->list()) {
      if (lack.empty()) lack = steps.apply(transform);
    }
  }
  if (lack.empty()) return {steps.config(), ""};
  return {{}, text("the folder has no preprocessor_config.json: {}", lack)};
}

}  // namespace accel
