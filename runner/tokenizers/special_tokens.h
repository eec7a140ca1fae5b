// Which tokens have a task of their own.
#pragma once

#include <filesystem>
#include <functional>

#include "runner/tokenizers/tokenizer.h"

namespace accel {

/// Reads special_tokens_map.json and tokenizer_config.json of a folder, of which the second wins;
/// what neither names is looked for by its usual spellings. `id_of` is nothing for an unknown
/// token. The texts of both files are appended to `sources`. Throws DataError that names file and
/// place.
SpecialTokens read_special_tokens(
    const std::filesystem::path& folder,
    const std::function<std::optional<int32_t>(const std::string&)>& id_of, std::string& sources);

/// Those that are known by their usual spellings alone.
SpecialTokens usual_special_tokens(
    const std::function<std::optional<int32_t>(const std::string&)>& id_of);

}  // namespace accel
