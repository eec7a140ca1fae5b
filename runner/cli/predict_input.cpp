#include "runner/cli/predict_input.h"

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/datasets/image/image_files.h"
#include "infer/predict.h"

namespace accel {
namespace {

/// "path='...'" as an override, with quotes escaped.
std::string path_word(const std::string& option, const std::string& path) {
  std::string quoted;
  for (const char c : path) quoted += c == '\'' ? "''" : std::string(1, c);
  return option + "='" + quoted + "'";
}

/// Whether a path is an image, or a folder with one in it.
bool has_images(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return is_image_file(path);
  int looks = 100;
  for (std::filesystem::recursive_directory_iterator at(path, error), end;
       !error && at != end && looks > 0; at.increment(error), --looks) {
    if (is_image_file(at->path().string())) return true;
  }
  return false;
}

const ComponentInfo* dataset_info(const TrainedModel& trained, const std::string& type) {
  const auto& items = trained.registry->of<Dataset>().items();
  const auto found = items.find(type);
  return found == items.end() ? nullptr : &found->second;
}

bool has_option(const ComponentInfo& info, const std::string& name) {
  return std::any_of(info.fields.begin(), info.fields.end(),
                     [&](const FieldInfo& field) { return field.name == name; });
}

/// Options for images that the recipe's dataset cannot read: those of a model that was trained on
/// another format. Tells what is assumed. Empty: the input is for the recipe's dataset.
std::vector<std::string> words_for_images(const TrainedModel& trained, const std::string& path,
                                          const std::string& type) {
  const Shape& shape = trained.data.input;
  const bool reads_images = type == "image_folder" || type == "hf_images";
  const bool is_image = shape.size() == 3 && (shape[0] == 1 || shape[0] == 3);
  if (reads_images || !is_image || !has_images(path)) return {};
  const std::string size = text("size=[{}, {}]", shape[1], shape[2]);
  const std::string channels = shape[0] == 1 ? "grayscale=true" : "grayscale=false";
  std::cerr << text("reading images: --data type=image_folder --data {} --data '{}'\n", channels,
                    size);
  return {"type=image_folder", channels, size};
}

/// The options that name a dataset's files of inputs, and those of targets, which are not read;
/// empty: it has no files.
std::vector<std::string> input_options(const ComponentInfo& info) {
  if (has_option(info, "path")) return {"path"};
  if (has_option(info, "inputs") && has_option(info, "targets")) return {"inputs", "targets"};
  if (has_option(info, "images") && has_option(info, "labels")) return {"images", "labels"};
  return {};
}

}  // namespace

std::vector<std::string> input_words(const TrainedModel& trained, const std::string& path,
                                     const std::vector<std::string>& given) {
  const bool typed = std::any_of(given.begin(), given.end(),
                                 [](const std::string& word) { return word.starts_with("type="); });
  std::vector<std::string> words;
  std::vector<std::string> options = {"path"};
  if (!typed) {
    const Node dataset = dataset_with(trained.resolved, {}, trained.data, *trained.registry);
    const Node::Entry* entry = dataset.find("type");
    const std::string type = entry && entry->node.scalar() ? entry->node.scalar()->text : "";
    words = words_for_images(trained, path, type);
    const ComponentInfo* info = dataset_info(trained, type);
    if (words.empty() && info) options = input_options(*info);
    if (options.empty()) {
      throw Error(
          ExitCode::kRecipe, text("the dataset '{}' of the recipe does not read '{}'", type, path),
          has_images(path)
              ? "the size of the model's images is not in the checkpoint: add --data "
                "type=image_folder --data size=[HEIGHT,WIDTH], and --data grayscale=true for "
                "one channel"
              : "add --data type=... for the format of the input, such as type=csv");
    }
  }
  for (const std::string& option : options) words.push_back(path_word(option, path));
  words.insert(words.end(), given.begin(), given.end());
  return words;
}

}  // namespace accel
