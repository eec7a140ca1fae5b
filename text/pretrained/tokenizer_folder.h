// Tokenizer folders as AutoTokenizer of Hugging Face transformers 5 reads them: tokenizer.json
// completed, or rebuilt by a class, from the files beside it.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace accel {

/// A tokenizer.json with what the files beside it change.
struct TokenizerFolder {
  nlohmann::json file;
  /// Special tokens by their keys, such as "eos_token".
  std::map<std::string, std::string> special_tokens;
  /// Why a class rebuilt the file, such as "'tokenizer_class' is 'X'"; empty: none did.
  std::string built_by;
  bool names_special_tokens = false;  ///< false: no file and no class names one
  bool split_special_tokens = false;  ///< special tokens in a text are text
  bool clean_up_spaces = false;       ///< in decoded texts
  std::string sources;                ///< texts of all files, for a digest
};

/// Whether a folder without tokenizer.json has the vocabulary files of its class, such as vocab.txt
/// of BertTokenizer, from which transformers builds the tokenizer. Throws DataError.
bool has_class_vocabulary(const std::filesystem::path& folder);

/// `path` is a tokenizer.json, or is missing in a folder with has_class_vocabulary(). Throws
/// DataError with the file and the path in it, also for a tokenizer that transformers builds in a
/// way that is not supported.
TokenizerFolder read_tokenizer_folder(const std::filesystem::path& path);

}  // namespace accel
