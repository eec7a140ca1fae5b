// Tokenizer classes of transformers: which one a folder gets, and the tokenizer.json that it
// builds.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/pretrained/tokenizer_arguments.h"

namespace accel {

/// The class that AutoTokenizer takes.
struct TokenizerClass {
  std::string name;             ///< without "Fast"; empty: tokenizer.json is taken as it is
  std::string source;           ///< "'tokenizer_class' is 'X'", or the like of config.json
  bool is_unsupported = false;  ///< a class without a pipeline, taken as none
};

/// By tokenizer_config.json, then the model's config.json, both objects, as AutoTokenizer of
/// transformers 5 does. `is_byte_level`: tokenizer.json names ByteLevel. Throws FormatError for
/// Python code.
TokenizerClass select_tokenizer_class(const nlohmann::ordered_json& tokenizer_config,
                                      const nlohmann::json& model_config, bool is_byte_level);

/// The name of a class of transformers under which it is known here, such as RobertaTokenizer for
/// BartTokenizer; empty for TokenizersBackend and for names that transformers does not know.
std::string known_tokenizer_class(std::string_view name);
/// The class of a model type in transformers' table; empty for none.
std::string_view tokenizer_class_of(std::string_view model_type);
/// Whether transformers ignores the class that files of this model type name.
bool ignores_named_class(std::string_view model_type);
/// Whether AutoConfig knows the type.
bool has_model_config(std::string_view model_type);

/// Steps of a class that replace those of tokenizer.json.
struct ClassPipeline {
  const char* name;
  const char* model;  ///< type of the model in tokenizer.json
  /// Sets defaults of `arguments` and rebuilds the sections but `post_processor`.
  void (*build)(TokenizerArguments& arguments, nlohmann::json& file);
  /// The post_processor that replaces the file's; null: the file's is kept.
  nlohmann::json (*post_process)(const TokenizerArguments& arguments,
                                 const std::function<int32_t(const std::string&)>& id_of) = nullptr;
  bool readds_special_tokens = false;  ///< those of the arguments lose other flags
  bool reads_merges = false;           ///< vocab.json and merges.txt, where there is no other file
};

/// Null for a class that is not supported.
const ClassPipeline* find_class_pipeline(std::string_view name);

}  // namespace accel
