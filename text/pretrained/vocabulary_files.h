// Vocabularies of tokenizer folders without a tokenizer.json: vocab.txt, vocab.json and merges.txt.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "text/pretrained/tokenizer_class.h"

namespace accel {

/// Whether the folder has the files that the class reads where there is no tokenizer.json.
bool has_vocabulary_files(const std::filesystem::path& folder, const ClassPipeline& pipeline);

/// The files as a tokenizer.json with a model and no steps, which the class adds. Appends their
/// texts to `sources`. Throws DataError with the file.
nlohmann::json read_vocabulary_files(const std::filesystem::path& folder,
                                     const ClassPipeline& pipeline, std::string& sources);

}  // namespace accel
