// Model cards: the README.md of a model on the hub.
#pragma once

#include <filesystem>
#include <string>

namespace accel {

/// The card of an exported folder: metadata for the hub from config.json or adapter_config.json,
/// and the `training` in a sentence. Throws DataError for a folder with neither file.
std::string model_card(const std::string& repository, const std::filesystem::path& folder,
                       const std::string& training);

}  // namespace accel
