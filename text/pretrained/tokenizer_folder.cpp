#include "text/pretrained/tokenizer_folder.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/log.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "formats/strict_json.h"
#include "text/json_node.h"
#include "text/pretrained/added_vocabulary.h"
#include "text/pretrained/tokenizer_arguments.h"
#include "text/pretrained/tokenizer_class.h"
#include "text/pretrained/vocabulary_files.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr int kDeepestConfig = 64;
constexpr size_t kConfigTreePerByte = 64;

/// What decides about a folder's tokenizer.
struct FolderFiles {
  std::filesystem::path config;  ///< tokenizer_config.json, for messages
  TokenizerArguments arguments;
  json model_config = json::object();  ///< config.json
};

FolderFiles read_files(const std::filesystem::path& folder) {
  FolderFiles files{folder / "tokenizer_config.json", TokenizerArguments::read(folder)};
  const auto path = folder / "config.json";
  if (!std::filesystem::exists(path)) return files;
  const SharedBytes bytes = map_file(path.string());
  try {
    MemoryBudget budget(bytes.view.size() * kConfigTreePerByte, "the JSON");
    const json config = parse_python_json(as_text(bytes.view), "the text", kDeepestConfig, budget);
    for (const char* key : {"model_type", "tokenizer_class"}) {
      const JsonNode node = JsonNode(config, "").find(key);
      if (!node.is_null()) files.model_config[key] = node.text();
    }
  } catch (const FormatError& error) {
    throw DataError(text("'{}': {}", path.string(), error.what()));
  }
  return files;
}

/// A token of the list 'added_tokens'; none for a malformed one.
std::optional<AddedToken> listed_token(const json& entry) {
  if (!entry.is_object()) return std::nullopt;
  const auto content = entry.find("content"), id = entry.find("id");
  if (content == entry.end() || !content->is_string()) return std::nullopt;
  if (id == entry.end() || !id->is_number_integer()) return std::nullopt;
  for (const char* key : {"single_word", "lstrip", "rstrip", "normalized", "special"}) {
    const auto flag = entry.find(key);
    if (flag != entry.end() && !flag->is_null() && !flag->is_boolean()) return std::nullopt;
  }
  AddedToken token = read_token_object(nlohmann::ordered_json::parse(entry.dump()));
  token.id = id->get<int32_t>();
  return token;
}

/// The file's tokens with the ids that the tokenizers package assigns; false for a list that the
/// pipeline refuses: a malformed one, and ids that the model or other tokens have.
bool add_listed_tokens(const json& list, AddedVocabulary& vocabulary) {
  if (list.is_null()) return true;
  if (!list.is_array()) return false;
  std::set<int32_t> ids;
  for (const json& entry : list) {
    std::optional<AddedToken> token = listed_token(entry);
    if (!token || vocabulary.is_added(token->content)) return false;
    const std::optional<int32_t> own = vocabulary.id_of(token->content);
    const bool conflicts =
        own ? *own != token->id : token->id < vocabulary.model_size() && !vocabulary.has_gaps();
    if (conflicts || !ids.insert(token->id).second) return false;
    vocabulary.add(*std::move(token));
  }
  return true;
}

/// The special tokens that files and the class name, in transformers' order.
std::vector<NamedToken> named_tokens(const TokenizerArguments& arguments) {
  std::vector<NamedToken> tokens;
  for (const std::string& key : special_token_keys()) {
    if (auto token = arguments.token(key)) tokens.push_back(*std::move(token));
  }
  for (NamedToken& token : arguments.model_tokens()) {
    const auto same = std::find_if(tokens.begin(), tokens.end(),
                                   [&](const NamedToken& known) { return known.key == token.key; });
    if (same == tokens.end()) {
      tokens.push_back(std::move(token));
    } else {
      *same = std::move(token);
    }
  }
  return tokens;
}

/// Adds the tokens that transformers adds after it built the pipeline: first those of
/// `added_tokens_decoder`, then special tokens that are not added ones yet.
void add_tokens(const TokenizerArguments& arguments, const ClassPipeline* pipeline,
                AddedVocabulary& vocabulary) {
  const std::vector<NamedToken> named = named_tokens(arguments);
  std::vector<AddedToken> tokens = arguments.added();
  std::vector<std::string> known;
  for (const AddedToken& token : tokens) known.push_back(token.content);
  const auto add_missing = [&](const NamedToken& token) {
    const std::string& content = token.token.content;
    if (vocabulary.is_added(content)) return;
    if (std::find(known.begin(), known.end(), content) != known.end()) return;
    known.push_back(content);
    tokens.push_back(token.token);
  };
  const std::vector<NamedToken> extra = arguments.list("extra_special_tokens");
  for (const NamedToken& token : named) add_missing(token);
  for (const NamedToken& token : extra) add_missing(token);
  for (AddedToken& token : tokens) {
    token.special =
        token.special || std::any_of(named.begin(), named.end(), [&](const NamedToken& special) {
          return special.token.content == token.content;
        });
    vocabulary.add(std::move(token));
  }
  if (!pipeline || !pipeline->readds_special_tokens) return;
  for (const NamedToken& token : named) vocabulary.add(special_token(token.token.content));
  for (const NamedToken& token : extra) vocabulary.add(special_token(token.token.content));
}

/// Rewrites `added_tokens`, but for a list that the pipeline refuses.
void complete_added_tokens(const TokenizerArguments& arguments, const ClassPipeline* pipeline,
                           AddedVocabulary& vocabulary, json& file) {
  const bool keeps = !pipeline || !arguments.has_decoder();
  if (keeps && !add_listed_tokens(file.value("added_tokens", json()), vocabulary)) return;
  add_tokens(arguments, pipeline, vocabulary);
  file["added_tokens"] = vocabulary.list();
}

/// Rebuilds the file by a class. Throws FormatError.
void rebuild(const ClassPipeline& pipeline, const std::string& source,
             TokenizerArguments& arguments, json& file) {
  const json& model = file.at("model");
  const std::string type = model.value("type", model.contains("merges") ? "BPE" : "");
  if (type != pipeline.model) {
    throw FormatError(text("{}, whose model is {}, but that of tokenizer.json is '{}'", source,
                           pipeline.model, printable(type)));
  }
  pipeline.build(arguments, file);
}

void set_post_processor(const ClassPipeline& pipeline, const TokenizerArguments& arguments,
                        const AddedVocabulary& vocabulary, json& file) {
  if (!pipeline.post_process) return;
  file["post_processor"] = pipeline.post_process(
      arguments, [&](const std::string& token) { return vocabulary.id_of(token).value_or(0); });
}

/// The decoded text is cleaned up unless the model is BPE, whose spaces are true ones.
bool cleans_up(const TokenizerArguments& arguments, const json& file) {
  return arguments.flag("clean_up_tokenization_spaces", false) &&
         (file.at("model").value("type", "BPE") != "BPE" ||
          arguments.flag("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
                         false));
}

/// The object of a tokenizer.json, whose text is appended to `sources`.
json read_whole(const std::filesystem::path& path, std::string& sources) {
  const SharedBytes bytes = map_file(path.string());
  sources += as_text(bytes.view);
  try {
    return read_json_tree(as_text(bytes.view));
  } catch (const FormatError& error) {
    throw DataError(text("'{}': {}", path.string(), error.what()));
  }
}

void refuse_other_files(const TokenizerArguments& arguments) {
  const auto found = arguments.config().find("fast_tokenizer_files");
  if (found == arguments.config().end() || !found->is_array()) return;
  for (const auto& name : *found) {
    if (name != "tokenizer.json") {
      throw FormatError(
          "'fast_tokenizer_files' names other files than tokenizer.json, which are "
          "not supported");
    }
  }
}

void apply_files(FolderFiles& files, const TokenizerClass& chosen, TokenizerFolder& out) {
  TokenizerArguments& arguments = files.arguments;
  json& file = out.file;
  const bool has_model = file.contains("model") && file["model"].is_object();
  if (!has_model) return;
  const ClassPipeline* pipeline = find_class_pipeline(chosen.name);
  const json padding = file.value("padding", json());
  if (pipeline) {
    rebuild(*pipeline, chosen.source, arguments, file);
    out.built_by = chosen.source;
  }
  for (const std::string& key : special_token_keys()) {
    out.names_special_tokens = out.names_special_tokens || arguments.has(key);
  }
  if (padding.is_object() && padding.contains("pad_token") && padding["pad_token"].is_string()) {
    arguments.set_default("pad_token", padding["pad_token"].get<std::string>());
  }
  AddedVocabulary vocabulary(file["model"]);
  complete_added_tokens(arguments, pipeline, vocabulary, file);
  if (pipeline) set_post_processor(*pipeline, arguments, vocabulary, file);
  for (const NamedToken& token : named_tokens(arguments)) {
    out.special_tokens[token.key] = token.token.content;
  }
  out.split_special_tokens = arguments.flag("split_special_tokens", false);
  out.clean_up_spaces = cleans_up(arguments, file);
  if (chosen.source.find("config.json") != std::string::npos) out.sources += chosen.name;
}

}  // namespace

bool has_class_vocabulary(const std::filesystem::path& folder) {
  const FolderFiles files = read_files(folder);
  try {
    const TokenizerClass chosen =
        select_tokenizer_class(files.arguments.config(), files.model_config,
                               /*is_byte_level=*/false);
    const ClassPipeline* const pipeline = find_class_pipeline(chosen.name);
    return pipeline && has_vocabulary_files(folder, *pipeline);
  } catch (const FormatError& error) {
    throw DataError(text("'{}': {}", files.config.string(), error.what()));
  }
}

TokenizerFolder read_tokenizer_folder(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.parent_path();
  const bool is_whole = std::filesystem::exists(path);
  TokenizerFolder out;
  if (is_whole) out.file = read_whole(path, out.sources);
  FolderFiles files = read_files(folder);
  try {
    refuse_other_files(files.arguments);
    const TokenizerClass chosen =
        select_tokenizer_class(files.arguments.config(), files.model_config,
                               out.sources.find("\"ByteLevel\"") != std::string::npos);
    if (chosen.is_unsupported) {
      warn(text(
          "{}: texts are tokenized as tokenizer.json says; transformers 5 builds its tokenizer "
          "from the class, which may differ",
          chosen.source));
    }
    if (!is_whole) {
      out.file = read_vocabulary_files(folder, *find_class_pipeline(chosen.name), out.sources);
    }
    out.sources += files.arguments.sources();
    apply_files(files, chosen, out);
  } catch (const FormatError& error) {
    throw DataError(accel::text("'{}': {}", files.config.string(), error.what()),
                    "in Python, AutoTokenizer.from_pretrained(FOLDER).backend_tokenizer.save(FILE) "
                    "writes the tokenizer.json that transformers builds; with it, set "
                    "'tokenizer_class' to 'PreTrainedTokenizerFast'");
  }
  return out;
}

}  // namespace accel
