// Columns of text as token sequences: what datasets of texts have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dataset.h"
#include "core/input_path.h"
#include "core/schema.h"
#include "data/bad_samples.h"
#include "data/token_cache.h"
#include "data/token_sequences.h"
#include "runner/tokenizers/tokenizer.h"

namespace accel {

struct TextColumnOptions {
  std::vector<std::string> text;
  InputPath tokenizer;
  Auto<int64_t> max_length = {};
  int64_t pad_multiple = 1;
  Auto<FilePath> cache = {};
};

/// Reports what does not fit together: no tokenizer, three columns, a tokenizer without a text.
void check_text_columns(const TextColumnOptions& options, const Node& node, Reading& reading);

/// Adds the options of TextColumnOptions, which `Options` derives from, to a schema.
template <class Options>
Schema<Options> with_text_columns(Schema<Options> schema) {
  return std::move(schema)
      .field("text", static_cast<std::vector<std::string> Options::*>(&Options::text),
             "Column of the text, which a tokenizer turns into tokens; two columns make a pair.")
      .field("tokenizer", static_cast<InputPath Options::*>(&Options::tokenizer),
             "A tokenizer.json, the folder that holds it, or SentencePiece's .model.")
      .field("max_length", static_cast<Auto<int64_t> Options::*>(&Options::max_length),
             "Tokens, special ones included, beyond which a text is cut; of a pair the longer one. "
             "auto: as the tokenizer's file has it, else 128.",
             if_given<Auto>(at_least<int64_t>(1)))
      .field("pad_multiple", static_cast<int64_t Options::*>(&Options::pad_multiple),
             "Micro-batches are filled to their longest text, rounded up to a multiple of this.",
             at_least<int64_t>(1))
      .field("cache", static_cast<Auto<FilePath> Options::*>(&Options::cache),
             "Folder in which the tokens of a file above 4 MiB are kept for later runs; auto: "
             "accel-run in the user's folder of caches.")
      .check([](const Options& options, const Node& node, Reading& reading) {
        check_text_columns(options, node, reading);
      });
}

/// Each token's successor, and kIgnoredTarget for the last: what a language model is to predict.
Array following(const Array& tokens);

/// Vocabulary, mask and special tokens of what `tokenizer` gives.
void describe_tokens(const Tokenizer& tokenizer, DataShape& shape);

/// All bytes that texts come from, file by file.
using FileContents = std::vector<std::span<const std::byte>>;

/// The text of one record, or its pair of texts.
struct RecordText {
  std::string_view first;
  std::string_view second = {};
  std::string place;  ///< for messages: "train.tsv:3"
};

/// The texts of a file as samples without targets, and, of a large file, kept for the next run.
class TextColumns {
 public:
  /// `contents` are the files' and `reading` what else decides which texts it gives: together with
  /// the options and the tokenizer they say whether kept tokens are those of these texts. Where
  /// records may be left out, `reading` must tell by what.
  TextColumns(const TextColumnOptions& options, std::shared_ptr<const Tokenizer> tokenizer,
              const FileContents& contents, const std::string& reading);

  /// The next text; does nothing where its tokens were kept. Texts become tokens many at a time, on
  /// all cores, and in their order. Gives `bad` each record, up to this one, whose text gives no
  /// token, and when the length leaves no room for a text between the special tokens.
  void add(const RecordText& record, BadSamples& bad);
  /// To be called when all are added, and before anything below. Gives `bad` what add() does.
  void finish(BadSamples& bad);

  int64_t size() const { return whole_ ? sequences_.size() : static_cast<int64_t>(rows_.size()); }
  Sample sample(int64_t index) const { return sequences_.sample(row(index)); }
  /// Tokens of sample `index`.
  int64_t length(int64_t index) const { return sequences_.length(row(index)); }
  /// Which of the records that were added sample `index` is.
  int64_t row(int64_t index) const { return whole_ ? index : rows_[static_cast<size_t>(index)]; }
  /// Input, vocabulary and padding; `shape` keeps what it says of the targets.
  DataShape described(DataShape shape) const;
  /// Which tokens a text gives, apart from the text: for fingerprints.
  std::string identity() const;

 private:
  /// A record's texts, one behind the other.
  struct Waiting {
    std::string texts;
    size_t first_bytes = 0;
    std::string place;
  };

  void encode_waiting(BadSamples& bad);
  void leave_out(const RecordText& record, BadSamples& bad) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool pair_;
  TextCut cut_;
  Padding padding_;
  std::vector<Waiting> waiting_;
  size_t waiting_bytes_ = 0;
  std::optional<TokenCache> cache_;  // none: the file is small
  std::string key_;
  bool kept_ = false;
  int64_t added_ = 0;
  TokenSequencesBuilder builder_;
  TokenSequences sequences_;   // of a record without tokens an empty one
  bool whole_ = true;          // no record is left out
  std::vector<int64_t> rows_;  // of the samples, where some are
};

}  // namespace accel
