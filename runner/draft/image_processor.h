// The image processor of a vision model's folder as options of a recipe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace accel {

/// What a model's images are, as transformers' image processor makes them.
struct ImageProcessor {
  std::vector<int64_t> size;  ///< of the option `size`; empty: not resized
  std::string interpolation = "bilinear";
  std::vector<int64_t> crop;       ///< [height, width] of the middle; empty: not cropped
  std::vector<double> mean, std;   ///< of values in [0, 1]; empty: not normalized
  std::vector<std::string> notes;  ///< where the values are from, and what is not done
};

/// Reads `image_processor` of `folder`/processor_config.json, or preprocessor_config.json. Keys
/// that it leaves out have the defaults of its class, or of that of `model_type` in `config`, the
/// folder's config.json. Without these files, the size is that of `config`. Throws DataError for
/// values of another type.
ImageProcessor read_image_processor(const std::filesystem::path& folder,
                                    const nlohmann::json& config);

/// Options of a dataset that resize.
std::vector<std::string> size_lines(const ImageProcessor& processor);
/// Items of `data.transform` for the rest, `augmentation` before the normalization; "": none.
std::vector<std::string> processor_transforms(const ImageProcessor& processor,
                                              const std::string& augmentation);

}  // namespace accel
