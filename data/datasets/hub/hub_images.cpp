// Images in a column of Parquet or Arrow files, as stored by Hugging Face's datasets.
#include <cstring>

#include "core/api/dataset.h"
#include "core/api/row_values.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/hub/hub_files.h"
#include "data/datasets/image/image_samples.h"
#include "data/datasets/label_map.h"
#include "data/datasets/text/disk_backed_buffer.h"
#include "data/datasets/text/token_cache.h"

namespace accel {
namespace {

struct HubImagesOptions : HubChoiceOptions {
  DataPath location;
  StreamingSection streaming;
  std::string image = "image";
  std::string target = "label";
  std::vector<std::string> labels;
  bool grayscale = false;
  std::vector<int64_t> size;
  Interpolation interpolation = Interpolation::kBilinear;
  bool exif_orientation = true;
};

/// Concatenated image files in a temporary file: a column may not fit into memory.
class ImageStore {
 public:
  ImageStore() : words_(user_cache()) {}

  void add(std::string_view file) {
    std::vector<int32_t> padded((file.size() + sizeof(int32_t) - 1) / sizeof(int32_t));
    if (!file.empty()) std::memcpy(padded.data(), file.data(), file.size());
    places_.push_back({words_.size(), file.size()});
    words_.add(padded);
  }
  void finish() { all_ = std::move(words_).finish(); }
  int64_t size() const { return static_cast<int64_t>(places_.size()); }
  std::span<const std::byte> file(int64_t index) const {
    const Place& place = places_[static_cast<size_t>(index)];
    if (place.bytes == 0) return {};
    return {all_.data() + static_cast<size_t>(place.word) * sizeof(int32_t), place.bytes};
  }

 private:
  struct Place {
    int64_t word;
    size_t bytes;
  };

  DiskBackedBuffer words_;
  std::vector<Place> places_;
  Array all_;
};

class HubImages final : public Dataset, public ClassLabels, public RowKeys {
 public:
  static constexpr auto kName = "hf_images";
  static constexpr auto kSummary =
      "Images in a column of Parquet or Arrow files, of a downloaded dataset of the hub or of "
      "save_to_disk.";

  static Schema<HubImagesOptions> schema() {
    return with_image_size_options(with_hub_choice(
        with_streaming(Schema<HubImagesOptions>(), kHubDataHelp)
            .field("image", &HubImagesOptions::image, "Column of the images, JPEG or PNG.")
            .field("target", &HubImagesOptions::target, "Column of the class labels.")
            .field("labels", &HubImagesOptions::labels,
                   "Class labels in the order of their numbers; empty: the names of the column, or "
                   "else the labels found, sorted.")
            .field("grayscale", &HubImagesOptions::grayscale, "One channel instead of three.")
            .field("exif_orientation", &HubImagesOptions::exif_orientation,
                   "Turn images as their EXIF orientation says, as datasets.Image does.")));
  }

  HubImages(const HubImagesOptions& options, const DatasetContext& context)
      : path_(options.location.text),
        data_{options.location, options.streaming, choice_of(options, context.train)},
        decoding_{.channels = options.grayscale ? Channels::kGray : Channels::kRgb,
                  .size = options.size,
                  .interpolation = options.interpolation,
                  .exif_orientation = options.exif_orientation} {
    const ArrowRows rows = open_columns(data_);
    read(rows, options, context.targets);
    if (size() == 0) throw DataError(accel::text("'{}' has no rows", path_));
    image_size_ = common_image_size(size(), decoding_.size, [this](int64_t i) {
      return own_image_size(images_.file(i), decoding_, name(i));
    });
    Fingerprint print;
    for (const auto& part : rows.contents()) print.add_content(part.bytes);
    print.add(options.image).add(options.target);
    if (options.exif_orientation) print.add("exif");
    fingerprint_ = print.text();
  }

  int64_t size() const override { return images_.size(); }
  Sample sample(int64_t index) const override {
    return {image_sample(images_.file(index), decoding_, name(index)),
            Array::label(labels_[static_cast<size_t>(index)])};
  }
  DataShape shape() const override {
    return image_shape(decoding_.channels, image_size_, classes_);
  }
  std::string fingerprint() const override { return fingerprint_; }
  int64_t class_of(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }
  std::string name(int64_t index) const override { return accel::text("{} row {}", path_, index); }
  std::vector<uint64_t> row_keys(const std::string& column) const override {
    return column_keys(data_, column);
  }

 private:
  void read(const ArrowRows& rows, const HubImagesOptions& options, bool targets) {
    std::vector<std::string> wanted = {options.image}, found;
    std::vector<ArrowField> kinds = {ArrowField::kBytes};
    if (targets) {
      wanted.push_back(options.target);
      kinds.push_back(ArrowField::kText);
    }
    const auto reader = rows.open(wanted, kinds);
    for (std::vector<std::string_view> fields; reader->next(fields);) {
      images_.add(fields[0]);
      if (targets) found.emplace_back(fields[1]);
    }
    images_.finish();
    labels_.resize(static_cast<size_t>(size()));
    if (targets) label(found, options.labels, rows.class_names(options.target));
  }

  void label(const std::vector<std::string>& found, const std::vector<std::string>& given,
             const std::vector<std::string>& named) {
    const auto& names = given.empty() ? named : given;
    classes_ = names.empty() ? LabelMap::found({found.begin(), found.end()})
                             : LabelMap::given(names, "labels");
    for (size_t i = 0; i < found.size(); ++i) {
      const auto number = classes_.find(found[i]);
      if (!number) {
        throw DataError(accel::text("{}: the label '{}' is not one of 'labels'",
                                    name(static_cast<int64_t>(i)), found[i]));
      }
      labels_[i] = *number;
    }
  }

  std::string path_;
  HubData data_;
  ImageDecoding decoding_;
  ImageStore images_;
  LabelMap classes_;
  std::vector<int64_t> labels_;
  ImageSize image_size_;
  std::string fingerprint_;
};

const Register<HubImages> hub_images;

}  // namespace
}  // namespace accel
