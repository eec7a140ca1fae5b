// Source texts and target texts in the rows of a file, for encoder-decoder models.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/api/packed_sequences.h"
#include "core/api/row_values.h"
#include "core/api/target_sequences.h"
#include "core/api/targets.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/text/text_columns.h"
#include "data/datasets/text/text_records.h"

namespace accel {
namespace {

struct TextToTextOptions {
  InputFile path;
  std::string source = "source";
  std::string target = "target";
  std::string source_prefix;
  InputPath tokenizer;
  int64_t max_source_length = 1024;
  int64_t max_target_length = 128;
  bool append_eos = false;
  bool pack = false;
  int64_t pad_to_multiple_of = 1;
  Auto<FilePath> cache;
  OnBadSample on_bad_sample;

  /// Those of one column, cut at `max_length`.
  TextColumnOptions column(const std::string& name, int64_t max_length) const {
    TextColumnOptions out;
    out.text = {name};
    out.tokenizer = tokenizer;
    out.max_length = {max_length};
    out.append_eos = append_eos;
    out.pad_to_multiple_of = pad_to_multiple_of;
    out.cache = cache;
    return out;
  }
  /// What determines the texts of both columns besides the content and the tokenizer.
  std::string reading(const std::string& format, bool of_targets) const {
    return accel::text("{} {},{} {}{}{}", format, source, target, of_targets ? "target" : "source",
                       of_targets ? "" : source_prefix, on_bad_sample.most ? " skip" : "");
  }
};

/// The samples are the records of which both texts have tokens.
class TextToText final : public Dataset, public SkipsSamples, public KnowsLengths, public RowKeys {
 public:
  static constexpr auto kName = "text_to_text";
  static constexpr const char* kHintFor[] = {"seq2seq",     "translation",   "summarization",
                                             "text2text",   "source_target", "translations",
                                             "text-to-text"};
  static constexpr auto kSummary =
      "A source and a target text per row of JSON Lines, CSV, TSV, Parquet or Arrow, for seq2seq.";

  static Schema<TextToTextOptions> schema();

  TextToText(const TextToTextOptions& options, const DatasetContext& context)
      : options_(options),
        has_targets_(context.targets),
        records_(record_source_of(options.path.text)),
        bad_(options.on_bad_sample, options.path.text),
        sources_(options.column(options.source, options.max_source_length),
                 load_tokenizer(options.tokenizer.text), records_->contents(),
                 options.reading(records_->format(), false)),
        targets_(options.column(options.target, options.max_target_length),
                 load_tokenizer(options.tokenizer.text), records_->contents(),
                 options.reading(records_->format(), true)) {
    read();
    pair_up();
    bad_.tell(TextToText::size());
    if (TextToText::size() == 0) {
      throw DataError(accel::text("'{}' has no {}", options.path.text, records_->record_name()));
    }
    if (options.pack && has_targets_) pack();
    Fingerprint print;
    for (const FileContent& part : records_->contents()) print.add_content(part.bytes);
    print.add(sources_.identity()).add(targets_.identity()).add(options.source);
    print.add(options.target).add(options.source_prefix);
    fingerprint_ = packing_ ? print.add("packed").text() : print.text();
  }

  int64_t size() const override {
    return packing_ ? packing_->size() : static_cast<int64_t>(samples_.size());
  }
  Sample sample(int64_t index) const override {
    return packing_ ? packed_sample(index) : pair_sample(index);
  }
  DataShape shape() const override {
    DataShape shape = sources_.described({.target = {options_.max_target_length, 0}});
    if (packing_) shape.segments = packed_segments(options_.max_source_length);
    return shape;
  }
  std::string fingerprint() const override { return fingerprint_; }
  int64_t left_out() const override { return bad_.count(); }
  /// Of the source.
  int64_t length(int64_t index) const override {
    if (!packing_) return length_of(index).first;
    int64_t sum = 0;
    for (const int64_t member : packing_->members(index)) sum += length_of(member).first;
    return sum;
  }
  std::vector<uint64_t> row_keys(const std::string& column) const override;

 private:
  /// Numbers of one record's texts in the two columns.
  struct Pair {
    int64_t source, target;
  };
  using Fields = std::vector<std::string_view>;

  std::vector<std::string> column_names() const {
    return has_targets_ ? std::vector<std::string>{options_.source, options_.target}
                        : std::vector<std::string>{options_.source};
  }
  void read();
  void pair_up();
  /// Of the pair `index`.
  Sample pair_sample(int64_t index) const;
  Sample packed_sample(int64_t index) const;
  PairLength length_of(int64_t index) const {
    const Pair& pair = samples_[static_cast<size_t>(index)];
    return {sources_.length(pair.source), targets_.length(pair.target)};
  }
  /// Targets are one token apart: see packed_sample().
  void pack() {
    packing_.emplace(static_cast<int64_t>(samples_.size()),
                     PairLength{options_.max_source_length, options_.max_target_length + 1},
                     [this](int64_t i) {
                       const PairLength tokens = length_of(i);
                       return PairLength{tokens.first, tokens.second + 1};
                     });
    packing_->say_summary(options_.path.text, options_.max_source_length);
  }

  TextToTextOptions options_;
  bool has_targets_;
  std::unique_ptr<RecordSource> records_;
  BadSamples bad_;
  TextColumns sources_, targets_;
  std::vector<Pair> samples_;
  std::optional<Packing> packing_;  ///< of `samples_`; none: a pair per sample
  std::string fingerprint_;
};

Sample TextToText::pair_sample(int64_t index) const {
  const Pair& pair = samples_[static_cast<size_t>(index)];
  Sample sample = sources_.sample(pair.source);
  sample.target = has_targets_ ? targets_.sample(pair.target).input
                               : Array::of<int64_t>(DType::kI64, {1}, std::vector{kIgnoredTarget});
  return sample;
}

/// Several sources, numbered from 1 in the segments, and their targets with kIgnoredTarget between
/// them.
Sample TextToText::packed_sample(int64_t index) const {
  std::vector<int64_t> source, target, segments;
  int64_t number = 0;
  for (const int64_t member : packing_->members(index)) {
    const Sample pair = pair_sample(member);
    const auto tokens = pair.input.as<int64_t>(), answer = pair.target.as<int64_t>();
    if (++number > 1) target.push_back(kIgnoredTarget);
    source.insert(source.end(), tokens.begin(), tokens.end());
    target.insert(target.end(), answer.begin(), answer.end());
    segments.resize(source.size(), number);
  }
  const auto array = [](const std::vector<int64_t>& values) {
    return Array::of<int64_t>(DType::kI64, {static_cast<int64_t>(values.size())}, values);
  };
  return {array(source), array(target), array(segments)};
}

/// Adds both texts of each readable record.
void TextToText::read() {
  const std::unique_ptr<RecordReader> reader = records_->open(column_names());
  Fields fields;
  std::string source;
  while (true) {
    try {
      if (!reader->next(fields)) break;
    } catch (const DataError& error) {
      bad_.leave_out(error);
      continue;
    }
    source.assign(options_.source_prefix).append(fields[0]);
    sources_.add({.first = source, .place = reader->location()}, bad_);
    if (has_targets_) targets_.add({.first = fields[1], .place = reader->location()}, bad_);
  }
  sources_.finish(bad_);
  targets_.finish(bad_);
}

void TextToText::pair_up() {
  for (int64_t i = 0, j = 0; i < sources_.size(); ++i) {
    if (!has_targets_) {
      samples_.push_back({i, 0});
      continue;
    }
    while (j < targets_.size() && targets_.row(j) < sources_.row(i)) ++j;
    if (j < targets_.size() && targets_.row(j) == sources_.row(i)) samples_.push_back({i, j});
  }
}

std::vector<uint64_t> TextToText::row_keys(const std::string& column) const {
  if (packing_) refuse_packed_groups(column, "pairs");
  std::vector<std::string> wanted = column_names();
  wanted.push_back(column);
  const std::unique_ptr<RecordReader> reader = records_->open(wanted);
  std::vector<uint64_t> of_records;
  Fields fields;
  while (true) {
    try {
      if (!reader->next(fields)) break;
    } catch (const DataError&) {
      if (!bad_.skips()) throw;
      continue;
    }
    of_records.push_back(Fingerprint().add(fields.back()).value());
  }
  std::vector<uint64_t> keys;
  for (const Pair& pair : samples_) {
    keys.push_back(of_records[static_cast<size_t>(sources_.row(pair.source))]);
  }
  return keys;
}

Schema<TextToTextOptions> TextToText::schema() {
  using Options = TextToTextOptions;
  const auto tokens = at_least<int64_t>(1);
  return with_bad_samples(
      Schema<Options>()
          .field("path", &Options::path,
                 "The file; its extension names the format: .csv, .tsv, .parquet, .arrow, else "
                 "JSON Lines.")
          .required()
          .field("source", &Options::source, "Column of the text that the encoder reads.")
          .hint_for({"text_column", "source_column", "source_lang", "input_column"})
          .field("target", &Options::target, "Column of the text that the decoder predicts.")
          .hint_for({"summary_column", "target_column", "target_lang"})
          .field("source_prefix", &Options::source_prefix,
                 "Text before each source, such as 'summarize: ' of T5.")
          .field("tokenizer", &Options::tokenizer,
                 "A tokenizer.json, the folder that holds it, or SentencePiece's .model.")
          .required()
          .hint_for({"tokenizer_name", "tokenizer_name_or_path", "tokenizer_path"})
          .field("max_source_length", &Options::max_source_length,
                 "Tokens, special ones included, beyond which a source is cut.", tokens)
          .hint_for({"max_length", "max_seq_length"})
          .field("max_target_length", &Options::max_target_length,
                 "Tokens, special ones included, beyond which a target is cut.", tokens)
          .hint_for({"val_max_target_length"})
          .field("append_eos", &Options::append_eos,
                 "Whether the tokenizer's end token follows each text that does not end with it. "
                 "T5's tokenizers add it themselves; a text that is cut loses it.")
          .hint_for({"add_eos", "add_eos_token"})
          .field("pack", &Options::pack,
                 "Packs several pairs into a sample of up to max_source_length and "
                 "max_target_length tokens. The model separates them in all attention. Prediction "
                 "does not pack.")
          .hint_for({"packing", "sample_packing"})
          .field("pad_to_multiple_of", &Options::pad_to_multiple_of,
                 "Sources and targets of a micro-batch are filled to their longest, rounded up to "
                 "a multiple of this.",
                 tokens)
          .field("cache", &Options::cache,
                 "Folder that caches the tokens of a file above 4 MiB for later runs; auto: "
                 "accel-run in the user's cache folder."));
}

const Register<TextToText> text_to_text;

}  // namespace
}  // namespace accel
