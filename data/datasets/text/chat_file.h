// The common part of datasets that read JSON Lines with a chat template.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/api/dataset.h"
#include "core/api/input_path.h"
#include "core/api/row_values.h"
#include "core/base/mapped_file.h"
#include "core/recipe/schema.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/skipped_samples.h"
#include "data/datasets/text/token_sequences.h"
#include "data/loader/epoch_order.h"
#include "text/tokenizer.h"

namespace accel {

struct ChatFileOptions {
  InputFile path;
  InputPath tokenizer;
  InputFile chat_template;
  int64_t max_length = 1024;
  int64_t pad_to_multiple_of = 1;
  OnBadSample on_bad_sample;
};

/// Adds the files of ChatFileOptions, a base of `Options`, to a schema.
template <class Options>
Schema<Options> with_chat_file(Schema<Options> schema) {
  return std::move(schema)
      .field("path", static_cast<InputFile Options::*>(&Options::path),
             "The file: an object a line, or an array of objects.")
      .required()
      .field("tokenizer", static_cast<InputPath Options::*>(&Options::tokenizer),
             "A tokenizer.json, or the folder that holds it.")
      .required()
      .field("chat_template", static_cast<InputFile Options::*>(&Options::chat_template),
             "File of a template for rows of messages; empty: the tokenizer's own, of its "
             "chat_template.jinja or tokenizer_config.json.");
}

/// Adds the lengths of ChatFileOptions, a base of `Options`, to a schema.
template <class Options>
Schema<Options> with_chat_lengths(Schema<Options> schema) {
  return std::move(schema)
      .field("max_length", static_cast<int64_t Options::*>(&Options::max_length),
             "Tokens beyond which a conversation, or a prompt with its answer, is cut.",
             at_least<int64_t>(2))
      .hint_for({"max_seq_length", "max_seq_len", "sequence_len", "cutoff_len"})
      .field("pad_to_multiple_of", static_cast<int64_t Options::*>(&Options::pad_to_multiple_of),
             "Micro-batches are filled to their longest sample, rounded up to a multiple of this.",
             at_least<int64_t>(1));
}

/// Token sequences of the rows of one file. Implementations define sample() and shape().
class ChatFile : public Dataset, public SkipsSamples, public KnowsLengths, public RowKeys {
 public:
  int64_t size() const override { return sequences_.size(); }
  std::string fingerprint() const override { return fingerprint_; }
  int64_t left_out() const override { return bad_.count(); }
  std::vector<uint64_t> row_keys(const std::string& column) const override;
  int64_t length(int64_t index) const override { return sequences_.length(index); }

 protected:
  using Row = nlohmann::ordered_json;
  using AddRow = std::function<void(const Row&, TokenSequencesBuilder&)>;

  explicit ChatFile(const ChatFileOptions& options);

  /// Calls `add` for each row; those for which it throws FormatError or DataError, without the
  /// place, are bad samples. Throws DataError if none is left.
  void read(const AddRow& add);
  /// Of the file, the tokenizer and `source`, the chat template.
  Fingerprint content_digest(const std::string& source) const;
  /// Unmaps the file.
  void set_fingerprint(const Fingerprint& print);

  const std::string& path() const { return path_; }
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  int64_t max_length() const { return max_length_; }
  const TokenSequences& sequences() const { return sequences_; }
  /// {max_length} tokens and as many targets, padded.
  DataShape token_shape() const;

 private:
  std::string path_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  SharedBytes file_;  ///< until the fingerprint is set
  int64_t max_length_;
  BadSamples bad_;
  Padding padding_;
  std::vector<int64_t> kept_;  ///< rows of the file that are samples
  TokenSequences sequences_;
  std::string fingerprint_;
};

}  // namespace accel
