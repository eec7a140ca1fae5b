// The preprocessor_config.json of an exported vision model: the run's evaluation transform.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/recipe/node.h"

namespace accel {

/// `config` is null where `lack` says why there is none.
struct ImageProcessorConfig {
  nlohmann::json config = {};
  std::string lack = {};
};

/// Of the section `data` of a resolved recipe: what its eval data, or else its training data, and
/// its transforms make of an image in an evaluation. An image processor of transformers resizes,
/// crops and normalizes, in this order.
ImageProcessorConfig image_processor_config(const Node& data);

}  // namespace accel
