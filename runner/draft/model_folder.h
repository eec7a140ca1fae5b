// Configs of Hugging Face model folders, as far as drafts need them.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace accel {

/// The object in `file`. Throws DataError for other contents.
nlohmann::json read_config(const std::filesystem::path& file);

/// config.json of the folder of `--model`. Throws Error (kRecipe) if there is none, and DataError.
nlohmann::json config_of_folder(const std::filesystem::path& folder);

/// Throws DataError for a config without one.
std::string model_type_in(const nlohmann::json& config, const std::filesystem::path& folder);

}  // namespace accel
