// The pipelines that transformers' tokenizer classes build from a vocabulary and their arguments.
#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/text.h"
#include "text/pretrained/tokenizer_class.h"

namespace accel {
namespace {

using nlohmann::json;
using TokenIds = std::function<int32_t(const std::string&)>;
using Defaults = std::initializer_list<std::pair<const char*, const char*>>;

constexpr const char* kWordMark = "▁";
constexpr const char* kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

void set_defaults(TokenizerArguments& arguments, Defaults defaults) {
  for (const auto& [key, token] : defaults) {
    arguments.set_default(key, token ? nlohmann::ordered_json(token) : nlohmann::ordered_json());
  }
}

std::string required_token(const TokenizerArguments& arguments, const char* key) {
  const auto token = arguments.token(key);
  if (!token) throw FormatError(text("'{}' must be a token: the tokenizer's class needs it", key));
  return token->token.content;
}

json byte_level_step(bool add_prefix_space, bool use_regex = true) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

json metaspace_step(const char* scheme, bool split = true) {
  return {{"type", "Metaspace"},
          {"replacement", kWordMark},
          {"prepend_scheme", scheme},
          {"split", split}};
}

json sequence_step(const char* type, const char* key, json steps) {
  return {{"type", type}, {key, std::move(steps)}};
}

json replace_step(const char* found, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{"String", found}}}, {"content", content}};
}

/// Keeps vocabulary and merges, whatever the file's options are.
void set_bpe(json& file, bool byte_fallback, bool fuse_unknown, json unknown = nullptr) {
  json& model = file["model"];
  model = {{"type", "BPE"},
           {"dropout", nullptr},
           {"unk_token", std::move(unknown)},
           {"continuing_subword_prefix", nullptr},
           {"end_of_word_suffix", nullptr},
           {"fuse_unk", fuse_unknown},
           {"byte_fallback", byte_fallback},
           {"ignore_merges", false},
           {"vocab", std::move(model["vocab"])},
           {"merges", std::move(model["merges"])}};
}

void set_unigram(json& file, int64_t unknown) {
  json& model = file["model"];
  model = {{"type", "Unigram"},
           {"unk_id", unknown},
           {"byte_fallback", false},
           {"vocab", std::move(model["vocab"])}};
}

/// The file's Precompiled normalizer: all that these classes take of its normalizers.
json precompiled_of(const json& file) {
  const auto found = file.find("normalizer");
  if (found == file.end() || !found->is_object()) return nullptr;
  const json steps = found->value("type", "") == "Sequence" ? found->value("normalizers", json())
                                                            : json::array({*found});
  for (const json& step : steps) {
    if (step.is_object() && step.value("type", "") == "Precompiled") return step;
  }
  return nullptr;
}

/// A piece of a template: a token, "$A" or "$B".
struct TemplatePiece {
  std::string what;
  int type = 0;
};

json template_pieces(const std::vector<TemplatePiece>& pieces) {
  json out = json::array();
  for (const TemplatePiece& piece : pieces) {
    const bool is_text = piece.what == "$A" || piece.what == "$B";
    out.push_back(
        {{is_text ? "Sequence" : "SpecialToken",
          {{"id", is_text ? piece.what.substr(1) : piece.what}, {"type_id", piece.type}}}});
  }
  return out;
}

json template_processor(const std::vector<TemplatePiece>& single,
                        const std::vector<TemplatePiece>& pair, const TokenIds& id_of) {
  json special = json::object();
  for (const TemplatePiece& piece : pair) {
    const std::string& token = piece.what;
    if (token == "$A" || token == "$B") continue;
    special[token] = {{"id", token}, {"ids", {id_of(token)}}, {"tokens", {token}}};
  }
  return {{"type", "TemplateProcessing"},
          {"single", template_pieces(single)},
          {"pair", template_pieces(pair)},
          {"special_tokens", std::move(special)}};
}

/// [CLS] A [SEP] B [SEP]
json bert_post(const TokenizerArguments& arguments, const TokenIds& id_of) {
  const std::string cls = required_token(arguments, "cls_token");
  const std::string sep = required_token(arguments, "sep_token");
  return template_processor({{cls}, {"$A"}, {sep}}, {{cls}, {"$A"}, {sep}, {"$B", 1}, {sep, 1}},
                            id_of);
}

/// <s> A </s> </s> B </s>
json roberta_post(const TokenizerArguments& arguments, const TokenIds& id_of) {
  const std::string cls = required_token(arguments, "cls_token");
  const std::string sep = required_token(arguments, "sep_token");
  return {{"type", "RobertaProcessing"},
          {"sep", {sep, id_of(sep)}},
          {"cls", {cls, id_of(cls)}},
          {"trim_offsets", true},
          {"add_prefix_space", false}};
}

json doubled_post(const TokenizerArguments& arguments, const TokenIds& id_of) {
  const std::string bos = required_token(arguments, "bos_token");
  const std::string eos = required_token(arguments, "eos_token");
  return template_processor({{bos}, {"$A"}, {eos}}, {{bos}, {"$A"}, {eos}, {eos}, {"$B"}, {eos}},
                            id_of);
}

json t5_post(const TokenizerArguments& arguments, const TokenIds& id_of) {
  const std::string eos = required_token(arguments, "eos_token");
  return template_processor({{"$A"}, {"</s>"}}, {{"$A"}, {"</s>"}, {"$B"}, {"</s>"}},
                            [&](const std::string&) { return id_of(eos); });
}

/// Nothing is added, whatever the file says.
json empty_post(const TokenizerArguments&, const TokenIds& id_of) {
  return template_processor({{"$A"}}, {{"$A"}, {"$B", 1}}, id_of);
}

void build_word_pieces(TokenizerArguments& arguments, json& file) {
  json& model = file["model"];
  model = {{"type", "WordPiece"},
           {"unk_token", required_token(arguments, "unk_token")},
           {"continuing_subword_prefix", "##"},
           {"max_input_chars_per_word", 100},
           {"vocab", std::move(model["vocab"])}};
  json strips = nullptr;
  if (arguments.flag("strip_accents", false)) strips = true;
  if (!arguments.flag("strip_accents", true)) strips = false;
  file["normalizer"] = {{"type", "BertNormalizer"},
                        {"clean_text", true},
                        {"handle_chinese_chars", arguments.flag("tokenize_chinese_chars", true)},
                        {"strip_accents", strips},
                        {"lowercase", arguments.flag("do_lower_case", true)}};
  file["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  file["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
}

void build_bert(TokenizerArguments& arguments, json& file) {
  set_defaults(arguments, {{"unk_token", "[UNK]"},
                           {"sep_token", "[SEP]"},
                           {"pad_token", "[PAD]"},
                           {"cls_token", "[CLS]"},
                           {"mask_token", "[MASK]"}});
  build_word_pieces(arguments, file);
}

/// Byte-level BPE with GPT-2's words.
void build_byte_level(const TokenizerArguments& arguments, json& file, bool adds_space) {
  set_bpe(file, false, false);
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = byte_level_step(arguments.flag("add_prefix_space", adds_space));
  file["decoder"] = byte_level_step(true);
}

void build_gpt2(TokenizerArguments& arguments, json& file) {
  set_defaults(arguments, {{"unk_token", "<|endoftext|>"},
                           {"bos_token", "<|endoftext|>"},
                           {"eos_token", "<|endoftext|>"},
                           {"pad_token", nullptr}});
  build_byte_level(arguments, file, false);
}

void set_roberta_tokens(TokenizerArguments& arguments) {
  set_defaults(arguments, {{"bos_token", "<s>"},
                           {"eos_token", "</s>"},
                           {"sep_token", "</s>"},
                           {"cls_token", "<s>"},
                           {"unk_token", "<unk>"},
                           {"pad_token", "<pad>"},
                           {"mask_token", "<mask>"}});
}

void build_roberta(TokenizerArguments& arguments, json& file) {
  set_roberta_tokens(arguments);
  build_byte_level(arguments, file, false);
}

void build_gpt_neox(TokenizerArguments& arguments, json& file) {
  set_defaults(arguments, {{"unk_token", "<|endoftext|>"},
                           {"bos_token", "<|endoftext|>"},
                           {"eos_token", "<|endoftext|>"},
                           {"pad_token", "<|padding|>"}});
  build_byte_level(arguments, file, false);
  file["normalizer"] = {{"type", "NFC"}};
}

void build_qwen(TokenizerArguments& arguments, json& file, const char* words) {
  set_defaults(arguments, {{"unk_token", "<|endoftext|>"},
                           {"bos_token", nullptr},
                           {"eos_token", "<|endoftext|>"},
                           {"pad_token", "<|endoftext|>"}});
  set_bpe(file, false, false);
  file["normalizer"] = {{"type", "NFC"}};
  file["pre_tokenizer"] =
      sequence_step("Sequence", "pretokenizers",
                    {{{"type", "Split"},
                      {"pattern", {{"Regex", words}}},
                      {"behavior", "Isolated"},
                      {"invert", false}},
                     byte_level_step(arguments.flag("add_prefix_space", false), false)});
  file["decoder"] = byte_level_step(true);
}

void build_qwen2(TokenizerArguments& arguments, json& file) {
  build_qwen(arguments, file, kQwen2Words);
}

void build_qwen3_5(TokenizerArguments& arguments, json& file) {
  build_qwen(arguments, file, kQwen35Words);
}

json marks_decoder(bool strips) {
  json steps = {replace_step(kWordMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (strips) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return sequence_step("Sequence", "decoders", std::move(steps));
}

void build_llama(TokenizerArguments& arguments, json& file) {
  set_defaults(arguments, {{"unk_token", "<unk>"}, {"bos_token", "<s>"}, {"eos_token", "</s>"}});
  const bool adds_space = arguments.flag("add_prefix_space", true);
  const bool is_legacy = arguments.flag("legacy", false);
  set_bpe(file, true, true);
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = metaspace_step(!adds_space ? "never"
                                         : is_legacy ? "always"
                                                     : "first",
                                         false);
  file["decoder"] = marks_decoder(adds_space);
}

void build_gemma(TokenizerArguments& arguments, json& file) {
  set_defaults(arguments, {{"unk_token", "<unk>"},
                           {"bos_token", "<bos>"},
                           {"eos_token", "<eos>"},
                           {"pad_token", "<pad>"},
                           {"mask_token", "<mask>"}});
  set_bpe(file, true, true, required_token(arguments, "unk_token"));
  file["normalizer"] = replace_step(" ", kWordMark);
  file["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"String", " "}}},
                           {"behavior", "MergedWithPrevious"},
                           {"invert", false}};
  file["decoder"] = marks_decoder(false);
}

/// Words with a mark before each.
void build_marked_words(json& file, const char* scheme, json normalizer) {
  file["normalizer"] = std::move(normalizer);
  file["pre_tokenizer"] = sequence_step("Sequence", "pretokenizers",
                                        {{{"type", "WhitespaceSplit"}}, metaspace_step(scheme)});
  file["decoder"] = metaspace_step(scheme);
}

/// The extra ids of T5, unless files name special tokens: those of special_tokens_map.json are
/// extended by the ids if they have none.
void set_t5_tokens(TokenizerArguments& arguments) {
  set_defaults(arguments, {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}});
  const int64_t ids = arguments.count("extra_ids", 100);
  auto tokens = nlohmann::ordered_json::array();
  for (int64_t id = 0; id < ids; ++id) tokens.push_back(text("<extra_id_{}>", id));
  if (!arguments.has("additional_special_tokens")) {
    arguments.set_default("extra_special_tokens", std::move(tokens));
    return;
  }
  int64_t given = 0;
  for (const NamedToken& token : arguments.list("additional_special_tokens")) {
    if (token.token.content.find("<extra_id_") != std::string::npos) ++given;
  }
  if (given == 0) {
    arguments.extend_additional_tokens(tokens);
  } else if (ids > 0 && given != ids) {
    throw FormatError(
        text("'extra_ids' is {}, but 'additional_special_tokens' has {} of them", ids, given));
  }
}

void build_t5(TokenizerArguments& arguments, json& file) {
  set_t5_tokens(arguments);
  json normalizer = precompiled_of(file);
  set_unigram(file, 2);
  build_marked_words(file, "always", std::move(normalizer));
}

void build_xlm_roberta(TokenizerArguments& arguments, json& file) {
  set_roberta_tokens(arguments);
  json normalizer = precompiled_of(file);
  set_unigram(file, 3);
  build_marked_words(file, arguments.flag("add_prefix_space", true) ? "always" : "never",
                     std::move(normalizer));
}

void build_albert(TokenizerArguments& arguments, json& file) {
  if (file.value("post_processor", json()).is_null()) {
    throw FormatError("tokenizer.json must have a 'post_processor' for AlbertTokenizer");
  }
  set_defaults(arguments, {{"bos_token", "[CLS]"},
                           {"eos_token", "[SEP]"},
                           {"unk_token", "<unk>"},
                           {"sep_token", "[SEP]"},
                           {"pad_token", "<pad>"},
                           {"cls_token", "[CLS]"},
                           {"mask_token", "[MASK]"}});
  json steps = {replace_step("``", "\""), replace_step("''", "\"")};
  if (!arguments.flag("keep_accents", false)) {
    steps.push_back({{"type", "NFKD"}});
    steps.push_back({{"type", "StripAccents"}});
  }
  if (arguments.flag("do_lower_case", true)) steps.push_back({{"type", "Lowercase"}});
  json normalizer = precompiled_of(file);
  if (!normalizer.is_null()) steps.push_back(std::move(normalizer));
  set_unigram(file, 1);
  build_marked_words(file, arguments.flag("add_prefix_space", true) ? "always" : "never",
                     sequence_step("Sequence", "normalizers", std::move(steps)));
}

constexpr std::array kPipelines = {
    ClassPipeline{"AlbertTokenizer", "Unigram", build_albert},
    ClassPipeline{"BertTokenizer", "WordPiece", build_bert, bert_post},
    ClassPipeline{"GPT2Tokenizer", "BPE", build_gpt2, nullptr, false, true},
    ClassPipeline{"GPTNeoXTokenizer", "BPE", build_gpt_neox, empty_post, false, true},
    ClassPipeline{"GemmaTokenizer", "BPE", build_gemma},
    ClassPipeline{"LlamaTokenizer", "BPE", build_llama},
    ClassPipeline{"Qwen2Tokenizer", "BPE", build_qwen2, nullptr, true, true},
    ClassPipeline{"Qwen3_5Tokenizer", "BPE", build_qwen3_5},
    ClassPipeline{"RobertaTokenizer", "BPE", build_roberta, roberta_post, false, true},
    ClassPipeline{"T5Tokenizer", "Unigram", build_t5, t5_post},
    ClassPipeline{"XLMRobertaTokenizer", "Unigram", build_xlm_roberta, doubled_post},
};

}  // namespace

const ClassPipeline* find_class_pipeline(std::string_view name) {
  for (const ClassPipeline& pipeline : kPipelines) {
    if (name == pipeline.name) return &pipeline;
  }
  return nullptr;
}

}  // namespace accel
