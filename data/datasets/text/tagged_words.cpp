#include "data/datasets/text/tagged_words.h"

#include <optional>
#include <utility>

#include "core/api/targets.h"
#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/text.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/text/text_columns.h"
#include "data/datasets/text/truncation.h"

namespace accel {
namespace {

/// A tag that PyTorch's losses ignore: the word has no label.
constexpr auto kIgnoredTag = "-100";

/// The class of a tag: its index in the labels, or the tag itself if labels are given and it is a
/// number.
int64_t number_of(const std::string& tag, const LabelMap& labels) {
  if (tag == kIgnoredTag && !labels.find(tag)) return kIgnoredTarget;
  if (const std::optional<int64_t> label = labels.find(tag)) return *label;
  for (int64_t i = 0; i < labels.count(); ++i) {
    if (tag == std::to_string(i)) return i;
  }
  throw FormatError(
      accel::text("has the tag '{}', which is not one of the {} labels", tag, labels.count()));
}

/// The tag of a word for its first token; kIgnoredTarget for other tokens.
std::vector<int32_t> on_first_tokens(const WordTokens& tokens, const std::vector<int32_t>& tags) {
  std::vector<int32_t> out;
  int32_t before = WordTokens::kNoWord;
  for (const int32_t word : tokens.words) {
    const bool first = word != WordTokens::kNoWord && word != before;
    out.push_back(first ? tags[static_cast<size_t>(word)] : static_cast<int32_t>(kIgnoredTarget));
    before = word;
  }
  return out;
}

}  // namespace

TaggedWords::TaggedWords(const TaggedWordOptions& options, const TaggedFile& file) {
  const std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(options.tokenizer.text);
  const LabelMap labels = labels_of(options, file);
  const TruncationConfig cut = cut_for(*tokenizer, options.max_length);
  read(file, labels, WordEncoder(tokenizer, cut));
  if (size() == 0) throw DataError(accel::text("'{}' has no lines", file.path));
  shape_ = {.input = {cut.max_length},
            .input_type = DType::kI64,
            .target = {cut.max_length},
            .classes = labels.count(),
            .labels = labels.names(),
            .labels_found = labels.is_found(),
            .padding = Padding{.input = tokenizer->special().pad.value_or(0),
                               .multiple = options.pad_to_multiple_of}};
  describe_tokens(*tokenizer, shape_);
  if (options.pack && file.with_tags) {
    packing_.emplace(sequences_.size(), cut.max_length,
                     [this](int64_t i) { return sequences_.length(i); });
    packing_->say_summary(file.path, cut.max_length);
    shape_.segments = packed_segments(cut.max_length);
  }
  Fingerprint print;
  print.add_content(file.content).add(tokenizer->digest());
  for (const std::string& column : file.columns) print.add(column);
  print.add(cut.max_length).add(static_cast<int64_t>(cut.strategy)).add(cut.from_left);
  fingerprint_ = packing_ ? print.add("packed").text() : print.text();
}

Sample TaggedWords::sample(int64_t index) const {
  if (!packing_) return text_sample(index);
  return joined_texts(packing_->members(index),
                      [this](int64_t member) { return text_sample(member); });
}

Sample TaggedWords::text_sample(int64_t index) const {
  Sample sample = sequences_.sample(index);
  sample.target = std::exchange(sample.segments, {});
  return sample;
}

LabelMap TaggedWords::labels_of(const TaggedWordOptions& options, const TaggedFile& file) {
  if (!options.labels.empty()) return LabelMap::given(options.labels, "labels");
  TextSet seen;
  file.each([&](const TaggedText& text) { seen.insert(text.tags.begin(), text.tags.end()); });
  seen.erase(kIgnoredTag);
  return LabelMap::found(seen);
}

void TaggedWords::read(const TaggedFile& file, const LabelMap& labels, const WordEncoder& encoder) {
  TokenSequencesBuilder builder;
  file.each([&](const TaggedText& text) {
    std::vector<int32_t> tags(text.words.size(), 0);  // class 0 if not requested
    for (size_t i = 0; i < text.tags.size(); ++i) {
      tags[i] = static_cast<int32_t>(number_of(text.tags[i], labels));
    }
    const WordTokens tokens = encoder.encode(text.words);
    builder.add(tokens.ids, on_first_tokens(tokens, tags));
  });
  sequences_ = std::move(builder).finish();
}

}  // namespace accel
