// Lookup in the Hugging Face hub cache: models--ORG--NAME/{blobs, refs, snapshots}. Downloads
// nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/environment.h"

namespace accel {

constexpr std::string_view kHubPrefix = "hf:";
constexpr std::string_view kHubDatasets = "datasets/";  ///< prefix of dataset repositories

/// HF_HOME, else `huggingface` in XDG_CACHE_HOME or ~/.cache; "" without any.
std::string hub_home_folder(const EnvironmentLookup& environment);
/// HF_HUB_CACHE, else `hub` in hub_home_folder().
std::string hub_cache_folder(const EnvironmentLookup& environment);
/// "models--org--name" for "org/name", "datasets--org--name" for "datasets/org/name".
std::string hub_folder_name(std::string_view repository);

/// The snapshot folder of `[datasets/]org/name[@revision]`. None when it is not in the cache.
std::optional<std::string> hub_snapshot(std::string_view name,
                                        const EnvironmentLookup& environment);

/// With the environment of this process.
std::optional<std::string> hub_snapshot(std::string_view name);

}  // namespace accel
