#include "data/datasets/text/text_columns.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/api/targets.h"
#include "core/base/error.h"
#include "core/base/parallel.h"
#include "core/base/text.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/text/truncation.h"

namespace accel {
namespace {

/// Smaller texts are tokenized too quickly to benefit from the cache.
constexpr int64_t kKeptFrom = int64_t{4} << 20;

/// Bytes of text that are tokenized in one parallel batch.
constexpr size_t kEncodedAtOnce = size_t{1} << 20;
constexpr size_t kAlone = size_t{64} << 10;

/// The key covers the whole content: tokens of a changed text must not be reused.
std::string key_of(const FileContents& contents, const std::string& identity) {
  XXH128_hash_t hash = {};
  for (const FileContent& part : contents) {
    hash = XXH3_128bits_withSeed(part.bytes.data(), part.bytes.size(), hash.low64 ^ hash.high64);
  }
  const XXH128_hash_t all = XXH3_128bits_withSeed(identity.data(), identity.size(), hash.low64);
  char digits[49];
  std::snprintf(digits, sizeof digits, "%016" PRIx64 "%016" PRIx64 "%016" PRIx64, hash.high64,
                all.high64, all.low64);
  return digits;
}

TokenPair encoded(const Tokenizer& tokenizer, const RecordText& record, bool pair,
                  const TruncationConfig& cut) {
  try {
    TokenPair out = pair ? encode_pair_cut(tokenizer, record.first, record.second, cut)
                         : encode_cut(tokenizer, record.first, cut);
    if (!out.ids.empty()) return out;
  } catch (const DataError& error) {
    throw DataError(record.place + ": " + error.what(), error.hint());
  }
  throw DataError(accel::text("{}: a text without any token", record.place),
                  "leave such records out, or use a tokenizer that adds special tokens");
}

std::string end_token_text(const Tokenizer& tokenizer) {
  if (const auto eos = tokenizer.special().eos) return std::string(tokenizer.token(*eos));
  throw DataError("'append_eos' needs an end token, and the tokenizer has none",
                  "name one as \"eos_token\" in 'special_tokens_map.json' in the same folder");
}

}  // namespace

void check_text_columns(const TextColumnOptions& options, const Node& node, Reading& reading) {
  if (options.text.empty() != options.tokenizer.text.empty()) {
    reading.problems.error(node.where,
                           options.text.empty()
                               ? "'tokenizer' is for a column of text, and 'text' names none"
                               : "'text' is turned into tokens, which takes a 'tokenizer'");
  }
  if (options.text.size() > 2) {
    reading.problems.error(
        node.where, accel::text("'text' names {} columns, but a sample is one text or a pair",
                                options.text.size()));
  }
  if (options.append_eos && options.text.size() != 1) {
    reading.problems.error(
        node.where, "'append_eos' is for samples of one text",
        options.text.empty() ? "leave it out, or name a 'text'" : "leave it out");
  }
}

Array following(const Array& tokens) {
  Array out(DType::kI64, tokens.shape());
  const auto from = tokens.as<int64_t>();
  const auto to = out.mutable_as<int64_t>();
  std::copy(from.begin() + 1, from.end(), to.begin());
  to.back() = kIgnoredTarget;
  return out;
}

void describe_tokens(const Tokenizer& tokenizer, DataShape& shape) {
  const SpecialTokens& special = tokenizer.special();
  shape.vocab = tokenizer.vocab_size();
  shape.mask_token = special.mask;
  for (const auto& token : {special.pad, special.bos, special.eos, special.unk, special.mask,
                            special.cls, special.sep}) {
    if (token) shape.special_tokens.push_back(*token);
  }
}

TextColumns::TextColumns(const TextColumnOptions& options,
                         std::shared_ptr<const Tokenizer> tokenizer, const FileContents& contents,
                         const std::string& reading)
    : tokenizer_(std::move(tokenizer)),
      pair_(options.text.size() == 2),
      end_(options.append_eos ? end_token_text(*tokenizer_) : ""),
      cut_(cut_for(*tokenizer_, options.max_length)),
      padding_{.input = tokenizer_->special().pad.value_or(0),
               .multiple = options.pad_to_multiple_of} {
  const std::filesystem::path folder =
      options.cache ? std::filesystem::path((*options.cache).text) : user_cache();
  for (const FileContent& part : contents) total_bytes_ += part.size;
  if (total_bytes_ < kKeptFrom || folder.empty()) return;
  cache_.emplace(folder);
  builder_ = TokenSequencesBuilder(folder);
  key_ = key_of(contents, accel::text("{} {}", identity(), reading));
  if (std::optional<TokenSequences> found = cache_->find(key_)) {
    sequences_ = std::move(*found);
    kept_ = true;
  }
}

void TextColumns::add(const RecordText& record, BadSamples& bad) {
  if (kept_) {
    if (sequences_.length(added_++) == 0) leave_out(record, bad);
    return;
  }
  std::string texts = whole_text(record);
  const size_t first_bytes = texts.size();
  if (pair_) texts += record.second;
  waiting_bytes_ += texts.size();
  waiting_.push_back({std::move(texts), first_bytes, record.place});
  if (waiting_bytes_ >= kEncodedAtOnce) encode_waiting(bad);
}

std::string TextColumns::whole_text(const RecordText& record) const {
  std::string out(record.first);
  if (!record.first.ends_with(end_)) out += end_;
  return out;
}

/// Cached tokens do not contain the errors of skipped records.
void TextColumns::leave_out(const RecordText& record, BadSamples& bad) const {
  try {
    const std::string first = whole_text(record);
    encoded(*tokenizer_, {first, record.second, record.place}, pair_, cut_);
  } catch (const DataError& error) {
    bad.leave_out(error);
  }
}

void TextColumns::encode_waiting(BadSamples& bad) {
  if (!shown_) shown_ = std::make_unique<Activity>("tokenizing", "B");
  shown_->progress(encoded_bytes_, total_bytes_);
  std::vector<TokenPair> made(waiting_.size());
  std::vector<std::exception_ptr> failures(waiting_.size());
  parallel_for(waiting_.size(), waiting_bytes_ < kAlone ? 1 : usable_cores(), [&](size_t i) {
    const Waiting& text = waiting_[i];
    const std::string_view all = text.texts;
    try {
      made[i] = encoded(*tokenizer_,
                        {all.substr(0, text.first_bytes), all.substr(text.first_bytes), text.place},
                        pair_, cut_);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  });
  for (size_t i = 0; i < made.size(); ++i) {
    try {
      if (failures[i]) std::rethrow_exception(failures[i]);
    } catch (const DataError& error) {
      bad.leave_out(error);
    }
    builder_.add(made[i].ids, made[i].types);
  }
  encoded_bytes_ += static_cast<int64_t>(waiting_bytes_);
  waiting_.clear();
  waiting_bytes_ = 0;
}

void TextColumns::finish(BadSamples& bad) {
  if (!kept_) {
    encode_waiting(bad);
    shown_.reset();
    sequences_ = std::move(builder_).finish();
    if (cache_ && sequences_.size() > 0) sequences_ = cache_->keep(key_, std::move(sequences_));
  }
  for (int64_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_.length(i) > 0) rows_.push_back(i);
  }
  whole_ = static_cast<int64_t>(rows_.size()) == sequences_.size();
  if (whole_) rows_ = {};
}

DataShape TextColumns::described(DataShape shape) const {
  shape.input = {cut_.max_length};
  shape.input_type = DType::kI64;
  describe_tokens(*tokenizer_, shape);
  shape.padding = padding_;
  shape.segments = pair_ ? 2 : 0;
  return shape;
}

std::string TextColumns::identity() const {
  Fingerprint fingerprint;
  fingerprint.add(tokenizer_->digest()).add(cut_.max_length).add(static_cast<int64_t>(pair_));
  if (cut_ != TruncationConfig{.max_length = cut_.max_length}) {
    fingerprint.add(static_cast<int64_t>(cut_.strategy)).add(cut_.from_left);
  }
  if (!end_.empty()) fingerprint.add(end_);
  return fingerprint.text();
}

}  // namespace accel
