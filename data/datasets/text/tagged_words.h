// Words with their tags as token sequences: the shared part of datasets for token classification.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/api/dataset.h"
#include "core/api/input_path.h"
#include "core/recipe/schema.h"
#include "data/datasets/label_map.h"
#include "data/datasets/text/token_sequences.h"
#include "data/datasets/text/word_encoder.h"

namespace accel {

struct TaggedWordOptions {
  std::vector<std::string> labels;
  InputPath tokenizer;
  Auto<int64_t> max_length = {};
  int64_t pad_to_multiple_of = 1;
  bool pack = false;
};

/// Adds TaggedWordOptions, a base of `Options`, to a schema; last `pad_to_multiple_of`.
template <class Options>
Schema<Options> with_tagged_words(Schema<Options> schema) {
  return std::move(schema)
      .field("labels", static_cast<std::vector<std::string> Options::*>(&Options::labels),
             "Tags in the order of their numbers, such as [O, B-PER, I-PER]; empty: the tags "
             "found, sorted.")
      .field("tokenizer", static_cast<InputPath Options::*>(&Options::tokenizer),
             "A tokenizer.json, the folder that holds it, or SentencePiece's .model.")
      .required()
      .field("max_length", static_cast<Auto<int64_t> Options::*>(&Options::max_length),
             "Tokens, special ones included, beyond which a list of words is cut; auto: as the "
             "tokenizer's file has it, else 128.",
             if_given<Auto>(at_least<int64_t>(1)))
      .field("pack", static_cast<bool Options::*>(&Options::pack),
             "Packs several texts into a sample of up to max_length tokens, for encoders, which "
             "separate them in attention. Prediction does not pack.")
      .hint_for({"packing", "sample_packing"})
      .field("pad_to_multiple_of", static_cast<int64_t Options::*>(&Options::pad_to_multiple_of),
             "Micro-batches are filled to their longest text, rounded up to a multiple of this.",
             at_least<int64_t>(1));
}

/// The words of a sentence and their tags.
struct TaggedText {
  std::vector<std::string> words;
  std::vector<std::string> tags;  ///< numbers as decimal text; empty if not requested
};

using UseTaggedText = std::function<void(const TaggedText&)>;

/// A file of tagged texts.
struct TaggedFile {
  std::string path;
  bool with_tags;  ///< false: for prediction
  std::span<const std::byte> content;
  std::vector<std::string> columns;  ///< of words and tags, for the fingerprint
  /// Calls its argument with each text in order. Converts its FormatError, and that of the file,
  /// into a DataError with the line.
  std::function<void(const UseTaggedText&)> each;
};

/// Immutable. The first token of a word has its tag as target, the others kIgnoredTarget.
class TaggedWords : public Dataset {
 public:
  int64_t size() const override { return packing_ ? packing_->size() : sequences_.size(); }
  Sample sample(int64_t index) const override;
  DataShape shape() const override { return shape_; }
  std::string fingerprint() const override { return fingerprint_; }

 protected:
  /// Reads the file twice if the options have no labels: they are found first.
  TaggedWords(const TaggedWordOptions& options, const TaggedFile& file);

  bool is_packed() const { return packing_.has_value(); }

 private:
  /// Of one text.
  Sample text_sample(int64_t index) const;
  static LabelMap labels_of(const TaggedWordOptions& options, const TaggedFile& file);
  void read(const TaggedFile& file, const LabelMap& labels, const WordEncoder& encoder);

  TokenSequences sequences_;        // its segments hold the targets
  std::optional<Packing> packing_;  // none: a text per sample
  DataShape shape_;
  std::string fingerprint_;
};

}  // namespace accel
