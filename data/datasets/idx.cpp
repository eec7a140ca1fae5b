// Images and labels in IDX files: MNIST, Fashion-MNIST and EMNIST.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/api/dataset.h"
#include "core/api/input_path.h"
#include "core/api/row_values.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/downloaded_set.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/rows.h"
#include "formats/records/idx.h"

namespace accel {
namespace {

struct IdxOptions {
  InputFile images;
  InputFile labels;
  bool scale = true;
};

class Idx : public Dataset, public ClassLabels {
 public:
  static constexpr auto kName = "idx";
  static constexpr auto kSummary =
      "Images and labels in IDX files, plain or gzip (MNIST's format).";

  static Schema<IdxOptions> schema() {
    return Schema<IdxOptions>()
        .field("images", &IdxOptions::images, "File of the images, [count, height, width].")
        .required()
        .field("labels", &IdxOptions::labels, "File of the class labels, [count].")
        .required()
        .field("scale", &IdxOptions::scale, "Divide bytes by 255, so that pixels are in [0, 1].");
  }

  explicit Idx(const IdxOptions& options, const DatasetContext& context = {})
      : images_(read_images(options.images.text)),
        labels_(context.targets ? read_labels(options.labels.text)
                                : undefined_classes(images_.shape()[0])),
        scale_(options.scale && images_.type() == DType::kU8),
        classes_(count_classes(labels_, options.labels.text)) {
    if (images_.shape()[0] != labels_.count()) {
      throw DataError(accel::text("'{}' holds {} images, but '{}' {} labels", options.images.text,
                                  images_.shape()[0], options.labels.text, labels_.count()),
                      "the files of training and test sets may have been mixed up");
    }
    fingerprint_ = Fingerprint()
                       .add_content({images_.data(), images_.bytes()})
                       .add_content({labels_.data(), labels_.bytes()})
                       .text();
  }

  int64_t size() const override { return labels_.count(); }

  Sample sample(int64_t index) const override {
    const Array image = row_of(images_, index);
    return {scale_ ? to_unit_range(image) : to_float(image), row_of(labels_, index)};
  }

  std::optional<Columns> columns() const override {
    if (!scale_ && images_.type() != DType::kF32) return std::nullopt;
    return Columns{images_, labels_, scale_};
  }

  DataShape shape() const override {
    return {.input = Shape(images_.shape().begin() + 1, images_.shape().end()),
            .classes = classes_};
  }

  std::string fingerprint() const override { return fingerprint_; }
  int64_t class_of(int64_t index) const override {
    return labels_.as<int64_t>()[static_cast<size_t>(index)];
  }

 private:
  /// Images as [count, channels, height, width]; vectors remain [count, features].
  static Array read_images(const std::string& path) {
    const Array images = read_idx(path);
    Shape shape = images.shape();
    if (shape.size() < 2) {
      throw DataError(accel::text("'{}' holds values of shape {}, not one image per entry", path,
                                  to_string(shape)),
                      "'images' and 'labels' may have been mixed up");
    }
    if (shape.size() == 3) shape.insert(shape.begin() + 1, 1);
    return Array(images.type(), std::move(shape), images.data(), images.owner());
  }

  static Array read_labels(const std::string& path) {
    const Array labels = read_idx(path);
    const bool whole = labels.type() != DType::kF32 && labels.type() != DType::kF64;
    if (labels.shape().size() != 1 || !whole) {
      throw DataError(
          accel::text("'{}' holds {} values of shape {}, not one whole number per image", path,
                      name_of(labels.type()), to_string(labels.shape())),
          "'images' and 'labels' may have been mixed up");
    }
    return to_int64(labels, path);
  }

  Array images_;
  Array labels_;
  bool scale_;
  int64_t classes_;
  std::string fingerprint_;
};

struct MnistOptions : DownloadedSetOptions {
  bool scale = true;
};

class Mnist final : public Idx {
 public:
  static constexpr auto kName = "mnist";
  static constexpr auto kSummary =
      "MNIST's handwritten digits: the files of `accel-run download mnist`.";

  static Schema<MnistOptions> schema() {
    return with_downloaded_set(
               Schema<MnistOptions>(),
               "Folder of the four files, gzip or plain; auto: where the download puts them.")
        .field("scale", &MnistOptions::scale, "Divide bytes by 255, so that pixels are in [0, 1].");
  }

  Mnist(const MnistOptions& options, const DatasetContext& context)
      : Idx(files(options, wanted_split(options, context.train))) {}

 private:
  static IdxOptions files(const MnistOptions& options, SetSplit split) {
    const std::string part = split == SetSplit::kTrain ? "train" : "t10k";
    const std::string images = part + "-images-idx3-ubyte";
    const std::string labels = part + "-labels-idx1-ubyte";
    const auto folder = set_folder(options, kName, {images + ".gz", labels + ".gz"});
    return {file(folder / images), file(folder / labels), options.scale};
  }

  /// The compressed file, unless only the unpacked one exists.
  static InputFile file(const std::filesystem::path& plain) {
    std::error_code error;
    const std::string packed = plain.string() + ".gz";
    const bool unpacked =
        !std::filesystem::exists(packed, error) && std::filesystem::exists(plain, error);
    return {{{unpacked ? plain.string() : packed}}};
  }
};

const Register<Idx> idx;
const Register<Mnist> mnist;

}  // namespace
}  // namespace accel
