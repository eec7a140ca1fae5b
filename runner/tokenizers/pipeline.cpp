#include "runner/tokenizers/pipeline.h"

#include <algorithm>

#include "core/utf8.h"
#include "runner/formats/format_error.h"
#include "runner/tokenizers/text_length.h"
#include "runner/tokenizers/unicode.h"

namespace accel {
namespace {

/// The object, once it is known to be one of a version that is understood.
const JsonPlace& checked(const JsonPlace& file) {
  file.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
             "post_processor", "decoder", "model"});
  const JsonPlace version = file.find("version");
  if (!version.is_null() && version.text() != "1.0") version.refuse("must be '1.0'");
  return file;
}

}  // namespace

Pipeline::Pipeline(const JsonPlace& file)
    : model_(read_token_model(checked(file).at("model"))),
      normalizer_(read_normalizer(file.find("normalizer"))),
      pre_tokenizer_(read_pre_tokenizer(file.find("pre_tokenizer"))),
      added_(file.find("added_tokens"), model_->vocabulary(), normalizer_.get()),
      post_processor_(PostProcessor::read(file.find("post_processor"))),
      decoder_(read_decoder(file.find("decoder"))),
      cut_(read_truncation(file.find("truncation"),
                           static_cast<int64_t>(post_processor_.single({}).size()))),
      fill_(read_padding(file.find("padding"))) {}

void Pipeline::describe(SpecialTokens special, std::string digest) {
  special_ = special;
  digest_ = std::move(digest);
}

void Pipeline::add_words(Words words, std::vector<int32_t>& ids) const {
  if (pre_tokenizer_) pre_tokenizer_->apply(words);
  for (const TextSpan& span : words.spans) model_->tokenize(words.word(span), ids);
}

void Pipeline::add_stretch(NormalText text, std::vector<int32_t>& ids) const {
  if (normalizer_) normalizer_->apply(text);
  const std::vector<AddedPart> parts = added_.normalized().parts(text.text);
  for (const AddedPart& part : parts) {
    if (part.id >= 0) {
      ids.push_back(part.id);
      continue;
    }
    const size_t size = part.span.end - part.span.begin;
    Words words;
    words.at_start = text.at_start && part.span.begin == 0;
    words.text = parts.size() == 1 ? std::move(text.text) : text.text.substr(part.span.begin, size);
    words.spans = {{0, size}};
    add_words(std::move(words), ids);
  }
}

std::vector<int32_t> Pipeline::plain_ids(std::string_view text) const {
  std::string repaired;
  if (!is_utf8(text)) text = repaired = lossy_utf8(text);
  std::vector<int32_t> ids;
  for (const AddedPart& part : added_.raw().parts(text)) {
    if (part.id >= 0) {
      ids.push_back(part.id);
    } else {
      const size_t size = part.span.end - part.span.begin;
      add_stretch({std::string(text.substr(part.span.begin, size)), part.span.begin == 0}, ids);
    }
  }
  return ids;
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
    const std::string* known = added ? &added->content : model_->vocabulary().token(id);
    if (known) tokens.push_back(*known);
  }
  if (decoder_) decoder_->apply(tokens);
  std::string text;
  for (const std::string& token : tokens) {
    if (!decoder_ && !text.empty()) text += ' ';
    text += token;
  }
  return text;
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
