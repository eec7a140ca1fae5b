#include "text/pipeline.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "text/growth_limit.h"
#include "text/unicode.h"

namespace accel {
namespace {

/// The object, after a check of its keys and version.
const JsonNode& checked(const JsonNode& file) {
  file.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
             "post_processor", "decoder", "model"});
  const JsonNode version = file.find("version");
  if (!version.is_null() && version.text() != "1.0") version.refuse("must be '1.0'");
  return file;
}

constexpr int64_t kMaxTextLength = std::numeric_limits<int32_t>::max();

bool is_left(const JsonNode& node) {
  const std::string direction = node.text_or("direction", "Right");
  if (direction != "Left" && direction != "Right") {
    node.at("direction").refuse("must be 'Left' or 'Right'");
  }
  return direction == "Left";
}

TruncationStrategy read_strategy(const JsonNode& node) {
  const std::string& strategy = node.text();
  if (strategy == "LongestFirst") return TruncationStrategy::kLongestFirst;
  if (strategy == "OnlyFirst") return TruncationStrategy::kOnlyFirst;
  if (strategy == "OnlySecond") return TruncationStrategy::kOnlySecond;
  node.refuse("must be 'LongestFirst', 'OnlyFirst' or 'OnlySecond'");
}

/// The object 'truncation'; none for null. `special` is the number of tokens added to a text.
std::optional<TruncationConfig> read_truncation(const JsonNode& node, int64_t special) {
  if (node.is_null()) return std::nullopt;
  node.only({"direction", "max_length", "strategy", "stride"});
  TruncationConfig truncation;
  truncation.max_length = node.at("max_length").integer(1, kMaxTextLength);
  truncation.strategy = read_strategy(node.at("strategy"));
  truncation.from_left = is_left(node);
  const int64_t stride = node.at("stride").integer(0, kMaxTextLength);
  if (truncation.max_length <= special) {
    node.at("max_length")
        .refuse(text("leaves no room for a text: {} special tokens are added", special));
  }
  if (stride > 0 && stride >= truncation.max_length - special) {
    node.at("stride").refuse(
        text("must be less than the {} tokens that 'max_length' leaves for a text",
             truncation.max_length - special));
  }
  return truncation;
}

/// The object 'padding'; none for null.
std::optional<PaddingConfig> read_padding(const JsonNode& node) {
  if (node.is_null()) return std::nullopt;
  node.only({"strategy", "direction", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token"});
  PaddingConfig padding;
  const JsonNode strategy = node.at("strategy");
  if (strategy.is_object()) {
    strategy.only({"Fixed"});
    padding.fixed = strategy.at("Fixed").integer(0, kMaxTextLength);
  } else if (strategy.text() != "BatchLongest") {
    strategy.refuse("must be 'BatchLongest' or {'Fixed': LENGTH}");
  }
  padding.on_left = is_left(node);
  const JsonNode multiple = node.find("pad_to_multiple_of");
  if (!multiple.is_null()) padding.multiple = multiple.integer(1, kMaxTextLength);
  padding.id = static_cast<int32_t>(node.at("pad_id").integer(0, kMaxTextLength));
  node.at("pad_type_id").integer(0, kMaxTextLength);
  padding.token = node.at("pad_token").text();
  return padding;
}

/// How the file's tokens are spelled.
TokenSpelling read_spelling(const JsonNode& file) {
  TokenSpelling out;
  for (const char* step : {"normalizer", "pre_tokenizer"}) {
    const JsonNode node = file.find(step);
    if (!node.is_null() && node.json().dump().find("\"ByteLevel\"") != std::string::npos) {
      out.byte_level = true;
    }
  }
  const JsonNode model = file.at("model");
  out.prefix = model.text_or("continuing_subword_prefix", "");
  out.suffix = model.text_or("end_of_word_suffix", "");
  return out;
}

/// transformers' clean_up_tokenization(): removes spaces before punctuation and endings.
std::string without_tokenization_spaces(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [found, replacement] : kRules) {
    std::string out;
    size_t done = 0;
    for (size_t at = text.find(found); at != text.npos; at = text.find(found, done)) {
      out.append(text, done, at - done).append(replacement);
      done = at + found.size();
    }
    text = out.append(text, done);
  }
  return text;
}

}  // namespace

Pipeline::Pipeline(const JsonNode& file, const PipelineOptions& options)
    : model_(read_token_model(checked(file).at("model"))),
      normalizer_(read_normalizer(file.find("normalizer"))),
      pre_tokenizer_(read_pre_tokenizer(file.find("pre_tokenizer"))),
      added_(file.find("added_tokens"), model_->vocabulary(), normalizer_.get(),
             options.split_special_tokens),
      post_processor_(PostProcessor::read(file.find("post_processor"))),
      decoder_(read_decoder(file.find("decoder"))),
      truncation_(read_truncation(file.find("truncation"),
                                  static_cast<int64_t>(post_processor_.single({}).size()))),
      padding_(read_padding(file.find("padding"))),
      spelling_(read_spelling(file)),
      options_(options) {}

void Pipeline::set_special_tokens(SpecialTokens special, std::string digest) {
  special_ = special;
  digest_ = std::move(digest);
}

void Pipeline::add_words(Words words, std::vector<int32_t>& ids) const {
  if (pre_tokenizer_) pre_tokenizer_->apply(words);
  for (const TextSpan& span : words.spans) model_->tokenize(words.word(span), ids);
}

void Pipeline::add_segment(NormalizedString text, std::vector<int32_t>& ids) const {
  if (normalizer_) normalizer_->apply(text);
  const std::vector<AddedSegment> segments = added_.normalized().segments(text.text);
  if (segments.size() == 1 && segments[0].id < 0) {
    const size_t size = text.text.size();
    return add_words({std::move(text.text), {{0, size}}, text.at_start, text.limit}, ids);
  }
  for (const AddedSegment& segment : segments) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
      continue;
    }
    const size_t size = segment.span.end - segment.span.begin;
    Words words;
    words.at_start = text.at_start && segment.span.begin == 0;
    words.text = text.text.substr(segment.span.begin, size);
    words.spans = {{0, size}};
    words.limit = text.limit;
    add_words(std::move(words), ids);
  }
}

void Pipeline::refuse_text(const FormatError& error) const {
  throw DataError(text("'{}': {}", file_.empty() ? "tokenizer.json" : file_, error.what()),
                  "use the tokenizer.json of its authors");
}

std::vector<int32_t> Pipeline::plain_ids(std::string_view text) const {
  try {
    return unchecked_ids(text);
  } catch (const FormatError& error) {
    refuse_text(error);
  }
}

std::vector<int32_t> Pipeline::segment_ids(std::string_view text, const TextSpan& span) const {
  const size_t size = span.end - span.begin;
  std::vector<int32_t> ids;
  add_segment({std::string(text.substr(span.begin, size)), span.begin == 0, grown_limit(size)},
              ids);
  return ids;
}

std::vector<int32_t> Pipeline::unchecked_ids(std::string_view text) const {
  std::string repaired;
  if (!is_utf8(text)) text = repaired = lossy_utf8(text);
  std::vector<int32_t> ids;
  for (const AddedSegment& segment : added_.raw().segments(text)) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
    } else {
      const std::vector<int32_t> inside = segment_ids(text, segment.span);
      ids.insert(ids.end(), inside.begin(), inside.end());
    }
  }
  return ids;
}

SpannedTokens Pipeline::encode_spans(std::string_view text) const {
  SpannedTokens out;
  try {
    for (const AddedSegment& segment : added_.raw().segments(text)) {
      const auto [begin, end] = segment.span;
      if (segment.id >= 0) {
        out.ids.push_back(segment.id);
        out.spans.push_back({begin, end});
        continue;
      }
      std::vector<std::string> tokens;
      for (const int32_t id : segment_ids(text, segment.span)) {
        out.ids.push_back(id);
        tokens.push_back(token(id));
      }
      for (const TokenSpan& span :
           align_tokens(text.substr(begin, end - begin), tokens, spelling_)) {
        out.spans.push_back({begin + span.begin, begin + span.end});
      }
    }
  } catch (const FormatError& error) {
    refuse_text(error);
  }
  return out;
}

std::vector<int32_t> Pipeline::encode(std::string_view text, bool with_special) const {
  std::vector<int32_t> ids = plain_ids(text);
  return with_special ? post_processor_.single(std::move(ids)) : ids;
}

TokenPair Pipeline::encode_pair(std::string_view first, std::string_view second) const {
  return post_processor_.pair(plain_ids(first), plain_ids(second));
}

std::string Pipeline::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    const AddedToken* added = added_.with_id(id);
    if (added && added->special && skip_special) continue;
    const std::string* known = added ? &added->spelled : model_->vocabulary().token(id);
    if (known) tokens.push_back(*known);
  }
  size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  try {
    if (decoder_) decoder_->apply(tokens, grown_limit(bytes));
  } catch (const FormatError& error) {
    refuse_text(error);
  }
  std::string text;
  for (const std::string& token : tokens) {
    if (!decoder_ && !text.empty()) text += ' ';
    text += token;
  }
  return options_.clean_up_spaces ? without_tokenization_spaces(std::move(text)) : text;
}

int64_t Pipeline::vocab_size() const {
  return std::max(model_->vocabulary().size(), added_.size());
}

std::optional<int32_t> Pipeline::id_of(std::string_view token) const {
  if (const AddedToken* added = added_.with_content(token)) return added->id;
  return model_->vocabulary().find(token);
}

std::string Pipeline::token(int32_t id) const {
  if (const AddedToken* added = added_.with_id(id)) return added->content;
  const std::string* known = model_->vocabulary().token(id);
  return known ? *known : "";
}

}  // namespace accel
