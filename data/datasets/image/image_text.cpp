// Images and texts that describe them, in the rows of a file.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/parallel.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/image/image_samples.h"
#include "data/datasets/text/text_columns.h"
#include "data/datasets/text/text_records.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kImageTextProbes = 64;

struct ImageTextOptions {
  InputFile path;
  std::string image = "image";
  std::string text = "text";
  FilePath images;
  InputPath tokenizer;
  int64_t max_length = 77;
  bool append_eos = false;
  bool grayscale = false;
  std::vector<int64_t> size;
  Interpolation interpolation = Interpolation::kBilinear;
  bool exif_orientation = false;
  Auto<FilePath> cache;
  OnBadSample on_bad_sample;

  TextColumnOptions column() const {
    TextColumnOptions out;
    out.text = {text};
    out.tokenizer = tokenizer;
    out.max_length = {max_length};
    out.append_eos = append_eos;
    out.cache = cache;
    return out;
  }
  /// What determines the texts besides the content and the tokenizer.
  std::string reading(const std::string& format) const {
    return accel::text("{} {}|{}|{}{}", format, image, text, images.text,
                       on_bad_sample.most ? " skip" : "");
  }
};

/// The samples are the records with a readable image and a text with tokens.
class ImageText final : public Dataset, public SkipsSamples {
 public:
  static constexpr auto kName = "image_text";
  static constexpr const char* kHintFor[] = {"image_caption", "image_captions", "captions",
                                             "csv_captions", "image_texts"};
  static constexpr auto kSummary =
      "An image file and a text per row of JSON Lines, CSV, TSV, Parquet or Arrow, for contrastive "
      "learning.";

  static Schema<ImageTextOptions> schema();

  ImageText(const ImageTextOptions& options, const DatasetContext& /*context*/)
      : options_(options),
        records_(record_source_of(options.path.text)),
        tokenizer_(load_tokenizer(options.tokenizer.text)),
        bad_(options.on_bad_sample, options.path.text),
        texts_(options.column(), tokenizer_, records_->contents(),
               options.reading(records_->format())),
        decoding_{.channels = options.grayscale ? Channels::kGray : Channels::kRgb,
                  .size = options.size,
                  .interpolation = options.interpolation,
                  .exif_orientation = options.exif_orientation} {
    read();
    keep_readable();
    bad_.tell(ImageText::size());
    if (ImageText::size() == 0) {
      throw DataError(accel::text("'{}' has no {}", options.path.text, records_->record_name()));
    }
    image_size_ = common_image_size(ImageText::size(), decoding_.size, [this](int64_t i) {
      return own_image_size(map_file(path_of(i)).view, decoding_, path_of(i));
    });
    fingerprint_ = digest();
  }

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  Sample sample(int64_t index) const override {
    const std::string path = path_of(index);
    return {image_sample(map_file(path).view, decoding_, path), tokens_of(index)};
  }
  DataShape shape() const override {
    DataShape shape = image_shape(decoding_.channels, image_size_, {});
    shape.target = {options_.max_length};
    shape.vocab = tokenizer_->vocab_size();
    return shape;
  }
  std::string fingerprint() const override { return fingerprint_; }
  std::string name(int64_t index) const override {
    return images_[static_cast<size_t>(texts_.row(samples_[static_cast<size_t>(index)]))];
  }
  int64_t left_out() const override { return bad_.count(); }

 private:
  std::string folder() const {
    return options_.images.text.empty() ? fs::path(options_.path.text).parent_path().string()
                                        : options_.images.text;
  }
  std::string path_of(int64_t index) const { return fs::path(folder()) / name(index); }
  void read();
  void check_ends() const;
  void keep_readable();
  Array tokens_of(int64_t index) const;
  std::string digest() const;

  ImageTextOptions options_;
  std::unique_ptr<RecordSource> records_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  BadSamples bad_;
  TextColumns texts_;
  std::vector<std::string> images_;  ///< paths in the file, of each text that was added
  std::vector<int64_t> samples_;     ///< texts
  ImageDecoding decoding_;
  ImageSize image_size_;
  std::string fingerprint_;
};

void ImageText::read() {
  const std::unique_ptr<RecordReader> reader = records_->open({options_.image, options_.text});
  std::vector<std::string_view> fields;
  while (true) {
    try {
      if (!reader->next(fields)) break;
      const fs::path path = fs::path(folder()) / fields[0];
      std::error_code unknown;
      if (!fs::is_regular_file(path, unknown)) {
        throw DataError(
            accel::text("{}: there is no image '{}'", reader->location(), path.string()),
            "'images' names the folder to which paths are relative");
      }
    } catch (const DataError& error) {
      bad_.leave_out(error);
      continue;
    }
    images_.emplace_back(fields[0]);
    texts_.add({.first = fields[1], .place = reader->location()}, bad_);
  }
  texts_.finish(bad_);
  check_ends();
}

/// The embedding of a text is that of its end token.
void ImageText::check_ends() const {
  const auto eos = tokenizer_->special().eos;
  if (!eos || options_.append_eos) return;
  for (int64_t i = 0; i < texts_.size(); ++i) {
    const Sample sample = texts_.sample(i);
    const auto tokens = sample.input.as<int64_t>();
    if (std::find(tokens.begin(), tokens.end(), *eos) != tokens.end()) continue;
    throw DataError(
        accel::text("'{}': the text of '{}' has no end token '{}'", options_.path.text,
                    images_[static_cast<size_t>(texts_.row(i))], tokenizer_->token(*eos)),
        "set 'append_eos: true', which adds one to each text");
  }
}

/// With `on_bad_sample: skip`, decodes every image, so that all ranks agree on the samples.
void ImageText::keep_readable() {
  const auto count = static_cast<size_t>(texts_.size());
  for (size_t i = 0; i < count; ++i) samples_.push_back(static_cast<int64_t>(i));
  if (!bad_.skips()) return;
  std::vector<std::exception_ptr> problems(count);
  parallel_for(count, usable_cores(), [&](size_t i) {
    const std::string path = path_of(static_cast<int64_t>(i));
    try {
      decode_image(map_file(path).view, decoding_.channels, path);
    } catch (...) {
      problems[i] = std::current_exception();
    }
  });
  samples_.clear();
  for (size_t i = 0; i < count; ++i) {
    try {
      if (problems[i]) std::rethrow_exception(problems[i]);
      samples_.push_back(static_cast<int64_t>(i));
    } catch (const DataError& error) {
      bad_.leave_out(error);
    }
  }
}

/// Padded to `max_length`.
Array ImageText::tokens_of(int64_t index) const {
  const Sample sample = texts_.sample(samples_[static_cast<size_t>(index)]);
  const auto from = sample.input.as<int64_t>();
  const SpecialTokens& special = tokenizer_->special();
  Array out(DType::kI64, {options_.max_length});
  const auto to = out.mutable_as<int64_t>();
  const auto end = std::copy(from.begin(), from.end(), to.begin());
  std::fill(end, to.end(), special.pad.value_or(0));
  // A text that was cut lost the one that was appended, as no text of CLIP's tokenizer does.
  if (options_.append_eos && special.eos) *(end - 1) = *special.eos;
  return out;
}

std::string ImageText::digest() const {
  Fingerprint print;
  for (const FileContent& part : records_->contents()) print.add_content(part.bytes);
  probe(size(), kImageTextProbes, [&](int64_t i) { print.add_content(map_file(path_of(i)).view); });
  print.add(texts_.identity()).add(options_.image).add(options_.text);
  if (options_.exif_orientation) print.add("exif");
  return print.text();
}

Schema<ImageTextOptions> ImageText::schema() {
  using Options = ImageTextOptions;
  return with_image_size_options(with_bad_samples(
      Schema<Options>()
          .field("path", &Options::path,
                 "The file; its extension names the format: .csv, .tsv, .parquet, .arrow, else "
                 "JSON Lines.")
          .required()
          .field("image", &Options::image,
                 "Column of the paths of the images, JPEG or PNG; `file_name` in a metadata file "
                 "of datasets' imagefolder.")
          .hint_for({"image_column", "csv_img_key", "file_name"})
          .field("text", &Options::text, "Column of the texts.")
          .hint_for({"caption_column", "csv_caption_key", "caption", "text_column"})
          .field("images", &Options::images,
                 "Folder to which the paths are relative; empty: that of the file.")
          .hint_for({"image_dir", "data_dir"})
          .field("tokenizer", &Options::tokenizer,
                 "A tokenizer.json, the folder that holds it, or SentencePiece's .model.")
          .required()
          .hint_for({"tokenizer_name", "tokenizer_name_or_path", "tokenizer_path"})
          .field("max_length", &Options::max_length,
                 "Tokens of a text, special ones included: longer texts are cut, shorter ones are "
                 "padded.",
                 at_least<int64_t>(1))
          .hint_for({"max_seq_length", "context_length", "model_max_length"})
          .field("append_eos", &Options::append_eos,
                 "Whether the tokenizer's end token follows each text that does not end with it; "
                 "in one that is cut it replaces the last token. CLIP's tokenizer adds it itself.")
          .hint_for({"add_eos", "add_eos_token"})
          .field("grayscale", &Options::grayscale, "One channel instead of three.")
          .field("exif_orientation", &Options::exif_orientation,
                 "Turn images as their EXIF orientation says, which cameras write.")
          .field("cache", &Options::cache,
                 "Folder that caches the tokens of a file above 4 MiB for later runs; auto: "
                 "accel-run in the user's cache folder.")));
}

const Register<ImageText> image_text;

}  // namespace
}  // namespace accel
