// Where Hugging Face's tools keep what they have downloaded: models--ORG--NAME/{blobs, refs,
// snapshots}. Only looked at here; nothing is fetched.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/interpolate.h"

namespace accel {

constexpr std::string_view kHubPrefix = "hf:";
constexpr std::string_view kHubDatasets = "datasets/";  ///< before the name of one that is no model

/// HF_HOME, else `huggingface` in XDG_CACHE_HOME or ~/.cache; "" without any.
std::string hub_home_folder(const Lookup& environment);
/// HF_HUB_CACHE, else `hub` in that.
std::string hub_cache_folder(const Lookup& environment);
/// "models--org--name", and of "datasets/org/name" "datasets--org--name".
std::string hub_folder_name(std::string_view repository);

/// The folder with the files of `hf:[datasets/]org/name[@revision]`, without "hf:". Null when
/// they were not downloaded.
std::optional<std::string> hub_snapshot(std::string_view name, const Lookup& environment);

/// The same by this process's environment.
std::optional<std::string> hub_snapshot(std::string_view name);

}  // namespace accel
