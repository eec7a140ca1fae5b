// Images in one folder per class, on disk or in a .tar, decoded on access.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "core/api/dataset.h"
#include "core/api/input_path.h"
#include "core/api/row_values.h"
#include "core/base/error.h"
#include "core/base/parallel.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/hub/split_names.h"
#include "data/datasets/image/image_files.h"
#include "data/datasets/image/image_samples.h"
#include "data/datasets/label_map.h"
#include "data/datasets/skipped_samples.h"

namespace accel {
namespace {

constexpr int64_t kContentProbes = 64;

struct ImageFolderOptions {
  InputPath path;
  std::string split;
  bool grayscale = false;
  std::vector<int64_t> size;
  Interpolation interpolation = Interpolation::kBilinear;
  bool exif_orientation = false;
  std::vector<std::string> labels;
  OnBadSample on_bad_sample;
};

class ImageFolder final : public Dataset, public SkipsSamples, public ClassLabels {
 public:
  static constexpr auto kName = "image_folder";
  static constexpr const char* kHintFor[] = {"imagefolder"};
  static constexpr auto kSummary =
      "JPEG and PNG images in one folder per class, on disk or in a .tar.";

  static Schema<ImageFolderOptions> schema() {
    return with_image_size_options(with_bad_samples(
        Schema<ImageFolderOptions>()
            .field("path", &ImageFolderOptions::path,
                   "A folder with one folder per class, or a .tar.")
            .required()
            .field("split", &ImageFolderOptions::split,
                   "Folder inside 'path' that holds the class folders: train, test.")
            .field("grayscale", &ImageFolderOptions::grayscale, "One channel instead of three.")
            .field("exif_orientation", &ImageFolderOptions::exif_orientation,
                   "Turn images as their EXIF orientation says, which cameras write; torchvision's "
                   "ImageFolder does not, datasets' imagefolder does.")
            .field("labels", &ImageFolderOptions::labels,
                   "Class folders in the order of their numbers; empty: all, sorted.")));
  }

  ImageFolder(const ImageFolderOptions& options, const DatasetContext& context)
      : files_(open_image_files(options.path.text, options.split)),
        bad_(options.on_bad_sample, options.path.text),
        decoding_{.channels = options.grayscale ? Channels::kGray : Channels::kRgb,
                  .size = options.size,
                  .interpolation = options.interpolation,
                  .exif_orientation = options.exif_orientation} {
    if (context.targets) label_files(options);
    labels_.resize(files_->files().size());
    if (bad_.skips()) try_all();
    bad_.tell(size());
    image_size_ = common_image_size(size(), decoding_.size, [this](int64_t i) {
      return own_image_size(files_->read(file_of(i)).view, decoding_, files_->name(file_of(i)));
    });
    Fingerprint print;
    for (int64_t i = 0; i < size(); ++i) {
      const ImageFile& file = files_->files()[static_cast<size_t>(file_of(i))];
      print.add(file.path).add(file.bytes);
    }
    probe(size(), kContentProbes,
          [&](int64_t i) { print.add_content(files_->read(file_of(i)).view); });
    if (options.exif_orientation) print.add("exif");
    fingerprint_ = print.text();
  }

  int64_t size() const override {
    return static_cast<int64_t>(bad_.count() > 0 ? kept_.size() : files_->files().size());
  }

  Sample sample(int64_t index) const override {
    const int64_t number = file_of(index);
    return {image_sample(files_->read(number).view, decoding_, files_->name(number)),
            Array::label(labels_[static_cast<size_t>(number)])};
  }

  DataShape shape() const override {
    return image_shape(decoding_.channels, image_size_, classes_);
  }

  std::string fingerprint() const override { return fingerprint_; }
  std::string name(int64_t index) const override {
    return files_->files()[static_cast<size_t>(file_of(index))].path;
  }
  int64_t left_out() const override { return bad_.count(); }
  int64_t class_of(int64_t index) const override {
    return labels_[static_cast<size_t>(file_of(index))];
  }

 private:
  /// Throws DataError for a folder of the top without images: it would be no class.
  void require_images(const TextSet& classes) const {
    for (const std::string& folder : files_->folders()) {
      if (classes.contains(folder)) continue;
      throw DataError(text("the class folder '{}' has no JPEG or PNG images", folder),
                      "put images into it, or move it out of the dataset's folder");
    }
  }

  void label_files(const ImageFolderOptions& options) {
    TextSet folders;
    bool nested = false;
    const auto folder_of = [](const std::string& path) { return path.substr(0, path.find('/')); };
    for (const ImageFile& file : files_->files()) {
      if (file.path.find('/') == std::string::npos) {
        throw DataError(accel::text("the image '{}' is not in a class folder", file.path),
                        "the layout is CLASS/NAME.jpg");
      }
      folders.insert(folder_of(file.path));
      nested = nested || std::count(file.path.begin(), file.path.end(), '/') > 1;
    }
    const bool are_splits =
        std::all_of(folders.begin(), folders.end(),
                    [](const std::string& name) { return !split_of_word(name).empty(); });
    if (options.split.empty() && nested && (are_splits || folders.contains("train"))) {
      throw DataError(accel::text("the folders of '{}' are splits, not classes", options.path.text),
                      text("'split: {}' picks one of them", *folders.rbegin()));
    }
    require_images(folders);
    classes_ = options.labels.empty() ? LabelMap::found(folders)
                                      : LabelMap::given(options.labels, "labels");
    for (const ImageFile& file : files_->files()) {
      const auto label = classes_.find(folder_of(file.path));
      if (!label) {
        throw DataError(accel::text("the folder '{}' of '{}' is not one of 'labels'",
                                    folder_of(file.path), options.path.text));
      }
      labels_.push_back(*label);
    }
  }

  /// Index of the file of sample `index`.
  int64_t file_of(int64_t index) const {
    return kept_.empty() ? index : kept_[static_cast<size_t>(index)];
  }

  /// Decodes every image and skips unreadable ones, so that all ranks agree on them.
  void try_all() {
    const size_t count = files_->files().size();
    std::vector<std::exception_ptr> problems(count);
    parallel_for(count, usable_cores(), [&](size_t i) {
      const auto number = static_cast<int64_t>(i);
      try {
        decode_image(files_->read(number).view, decoding_.channels, files_->name(number));
      } catch (...) {
        problems[i] = std::current_exception();
      }
    });
    for (size_t i = 0; i < count; ++i) {
      try {
        if (problems[i]) std::rethrow_exception(problems[i]);
        kept_.push_back(static_cast<int64_t>(i));
      } catch (const DataError& error) {
        bad_.leave_out(error);
      }
    }
    if (bad_.count() == 0) kept_ = {};
  }

  std::unique_ptr<ImageFiles> files_;
  BadSamples bad_;
  std::vector<int64_t> kept_;  ///< readable files; empty: all
  ImageDecoding decoding_;
  LabelMap classes_;
  std::vector<int64_t> labels_;  ///< per file
  ImageSize image_size_;
  std::string fingerprint_;
};

const Register<ImageFolder> image_folder;

}  // namespace
}  // namespace accel
