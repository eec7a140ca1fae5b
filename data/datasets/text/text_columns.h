// Text columns as token sequences: the shared part of text datasets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/api/dataset.h"
#include "core/api/input_path.h"
#include "core/base/activity.h"
#include "core/recipe/schema.h"
#include "data/datasets/skipped_samples.h"
#include "data/datasets/text/token_cache.h"
#include "data/datasets/text/token_sequences.h"
#include "text/tokenizer.h"

namespace accel {

struct TextColumnOptions {
  std::vector<std::string> text;
  InputPath tokenizer;
  Auto<int64_t> max_length = {};
  bool append_eos = false;
  int64_t pad_to_multiple_of = 1;
  Auto<FilePath> cache = {};
};

/// Reports invalid combinations: a missing tokenizer, three columns, a tokenizer without a text,
/// the end token of a pair.
void check_text_columns(const TextColumnOptions& options, const Node& node, Reading& reading);

/// Adds TextColumnOptions, a base of `Options`, to a schema.
template <class Options>
Schema<Options> with_text_columns(Schema<Options> schema) {
  return std::move(schema)
      .field("text", static_cast<std::vector<std::string> Options::*>(&Options::text),
             "Column of the text, which a tokenizer turns into tokens; two columns make a pair.")
      .hint_for({"text_column", "dataset_text_field", "text_field"})
      .field("tokenizer", static_cast<InputPath Options::*>(&Options::tokenizer),
             "A tokenizer.json, the folder that holds it, or SentencePiece's .model.")
      .hint_for({"tokenizer_name", "tokenizer_name_or_path", "tokenizer_path"})
      .field("max_length", static_cast<Auto<int64_t> Options::*>(&Options::max_length),
             "Tokens, special ones included, beyond which a text is cut; of a pair the longer one. "
             "auto: as the tokenizer's file has it, else 128.",
             if_given<Auto>(at_least<int64_t>(1)))
      .hint_for({"max_seq_length", "max_seq_len", "sequence_len", "model_max_length", "cutoff_len"})
      .field("append_eos", static_cast<bool Options::*>(&Options::append_eos),
             "Whether the tokenizer's end token follows each text that does not end with it, so "
             "that a language model learns where texts end; a text that is cut loses it.")
      .hint_for({"add_eos", "add_eos_token"})
      .field("pad_to_multiple_of", static_cast<int64_t Options::*>(&Options::pad_to_multiple_of),
             "Micro-batches are filled to their longest text, rounded up to a multiple of this.",
             at_least<int64_t>(1))
      .renamed_from("pad_multiple")
      .field("cache", static_cast<Auto<FilePath> Options::*>(&Options::cache),
             "Folder that caches the tokens of a file above 4 MiB for later runs; auto: accel-run "
             "in the user's cache folder.")
      .check([](const Options& options, const Node& node, Reading& reading) {
        check_text_columns(options, node, reading);
      });
}

/// The targets of a language model: the next token of each position, kIgnoredTarget for the last.
Array following(const Array& tokens);

/// Adds vocabulary, mask and special tokens of `tokenizer` to a shape.
void describe_tokens(const Tokenizer& tokenizer, DataShape& shape);

/// The content of a source file.
struct FileContent {
  // NOLINTNEXTLINE(google-explicit-constructor): a file is its bytes
  FileContent(std::span<const std::byte> content)
      : bytes(content), size(static_cast<int64_t>(content.size())) {}
  /// A file of `size` bytes in an object store, by what identifies its content.
  FileContent(std::span<const std::byte> identity, int64_t size) : bytes(identity), size(size) {}

  std::span<const std::byte> bytes;
  int64_t size = 0;
};

/// The contents of all source files.
using FileContents = std::vector<FileContent>;

/// The text or text pair of one record.
struct RecordText {
  std::string_view first;
  std::string_view second = {};
  std::string place;  ///< for messages: "train.tsv:3"
};

/// Token sequences of the texts of a file, without targets; cached on disk for large files.
class TextColumns {
 public:
  /// The cache key consists of `contents`, `reading` (anything else that determines the texts,
  /// including the rule for skipped records), the options and the tokenizer.
  TextColumns(const TextColumnOptions& options, std::shared_ptr<const Tokenizer> tokenizer,
              const FileContents& contents, const std::string& reading);

  /// Adds a text; does nothing if its tokens are cached. Texts are tokenized in parallel batches,
  /// in order. Records without tokens, and a maximum length without room for text between the
  /// special tokens, go to `bad`.
  void add(const RecordText& record, BadSamples& bad);
  /// Must be called after the last add() and before the functions below. Reports to `bad` as add().
  void finish(BadSamples& bad);

  int64_t size() const { return whole_ ? sequences_.size() : static_cast<int64_t>(rows_.size()); }
  Sample sample(int64_t index) const { return sequences_.sample(row(index)); }
  /// Length of sample `index` in tokens.
  int64_t length(int64_t index) const { return sequences_.length(row(index)); }
  /// The record of sample `index`, among those added.
  int64_t row(int64_t index) const { return whole_ ? index : rows_[static_cast<size_t>(index)]; }
  /// Adds input, vocabulary and padding; `shape` keeps the targets.
  DataShape described(DataShape shape) const;
  /// Tokenization apart from the text, for fingerprints.
  std::string identity() const;

 private:
  /// The concatenated texts of a record.
  struct Waiting {
    std::string texts;
    size_t first_bytes = 0;
    std::string place;
  };

  /// The text of a record as it is tokenized.
  std::string whole_text(const RecordText& record) const;
  void encode_waiting(BadSamples& bad);
  void leave_out(const RecordText& record, BadSamples& bad) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool pair_;
  std::string end_;  ///< of each text; "": as it is
  TruncationConfig cut_;
  Padding padding_;
  std::vector<Waiting> waiting_;
  size_t waiting_bytes_ = 0;
  int64_t total_bytes_ = 0;
  int64_t encoded_bytes_ = 0;
  std::unique_ptr<Activity> shown_;  // while texts are tokenized
  std::optional<TokenCache> cache_;  // none: small file
  std::string key_;
  bool kept_ = false;
  int64_t added_ = 0;
  TokenSequencesBuilder builder_;
  TokenSequences sequences_;   // empty sequence for a record without tokens
  bool whole_ = true;          // no records are skipped
  std::vector<int64_t> rows_;  // record of each sample, if records are skipped
};

}  // namespace accel
