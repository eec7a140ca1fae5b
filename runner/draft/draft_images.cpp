// Drafts for images: class folders, a .tar of them, and IDX files.
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "data/datasets/image/image_files.h"
#include "formats/image/exif.h"
#include "formats/image/image.h"
#include "formats/records/idx.h"
#include "runner/draft/image_processor.h"
#include "runner/draft/model_folder.h"
#include "runner/draft/recipe_draft.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kImagesToOpen = 20;
constexpr size_t kClassesToPrint = 12;
constexpr int64_t kLargestSide = 64;

/// Statistics of a folder or .tar of images.
struct SniffedImages {
  std::string train;                       ///< folder of the training split; empty: everything
  std::string eval;                        ///< folder of the eval split; empty: none
  std::string unlabelled;                  ///< folder of eval images without classes; empty: none
  std::map<std::string, int64_t> classes;  ///< training images by class
  int64_t count = 0;                       ///< of training images
  int64_t opened = 0;
  int64_t turned = 0;         ///< of the opened images: by an EXIF orientation
  int64_t damaged = 0;        ///< of the opened images
  std::string first_damaged;  ///< the reason of the first
  std::optional<ImageSize> first_size;
  int64_t side = 0;       ///< longest side of the opened images
  bool same_size = true;  ///< of the opened images
};

/// Null without images in that folder.
std::unique_ptr<ImageFiles> images_in(const std::string& path, const std::string& split) {
  if (fs::is_directory(path) && !fs::is_directory(fs::path(path) / split)) return nullptr;
  try {
    return open_image_files(path, split);
  } catch (const DataError&) {
    if (split.empty()) throw;
    return nullptr;
  }
}

struct TopFolder {
  std::string name;
  bool has_classes = false;  ///< whether images are in folders inside
};
using TopFolders = std::map<std::string, TopFolder>;

/// The folders at the top that have images, by their names in lower case.
TopFolders top_folders(const std::string& path) {
  TopFolders folders;
  const std::unique_ptr<ImageFiles> images = open_image_files(path, "");
  for (const ImageFile& file : images->files()) {
    const size_t slash = file.path.find('/');
    if (slash == std::string::npos) continue;
    const std::string name = file.path.substr(0, slash);
    TopFolder& folder = folders[ascii_lower(name)];
    folder.name = name;
    folder.has_classes = folder.has_classes || file.path.find('/', slash + 1) != file.path.npos;
  }
  return folders;
}

/// The first of `names` among `folders`, in any case, or "".
TopFolder first_of(const TopFolders& folders, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = folders.find(name);
    if (found != folders.end()) return found->second;
  }
  return {};
}

/// Images by the first folder of their path. Throws DataError for images outside of folders.
std::map<std::string, int64_t> count_by_class(const ImageFiles& images, const std::string& path) {
  std::map<std::string, int64_t> classes;
  for (const ImageFile& file : images.files()) {
    const size_t slash = file.path.find('/');
    if (slash == std::string::npos) {
      throw DataError(text("the images in '{}' are not in class folders", path),
                      "use one folder per class: cat/1.jpg, dog/1.jpg");
    }
    ++classes[file.path.substr(0, slash)];
  }
  return classes;
}

/// Where the class folders may be instead: one level down.
std::string class_folders_hint(const ImageFiles& images, const std::string& path) {
  std::set<std::string> inner;
  std::string outer;
  for (const ImageFile& file : images.files()) {
    const fs::path name = file.path;
    if (std::distance(name.begin(), name.end()) < 3) continue;
    outer = name.begin()->string();
    inner.insert(std::next(name.begin())->string());
  }
  if (inner.size() < 2) return "use one folder per class, at least two: cat/1.jpg, dog/1.jpg";
  return text("it has {} folders: if they are the classes, name '{}' in place of '{}'",
              inner.size(), (fs::path(path) / outer).string(), path);
}

void read_sizes(const ImageFiles& images, SniffedImages& found) {
  const auto count = static_cast<int64_t>(images.files().size());
  const int64_t step = std::max<int64_t>(1, count / kImagesToOpen);
  for (int64_t i = 0; i < count; i += step) {
    ++found.opened;
    ImageSize size;
    try {
      size = image_size(images.read(i).view, images.name(i));
      if (!found.first_size) found.first_size = size;
      decode_image(images.read(i).view, Channels::kRgb, images.name(i));
    } catch (const DataError& error) {
      if (found.damaged++ == 0) found.first_damaged = error.what();
      if (size == ImageSize{}) continue;
    }
    found.turned += exif_orientation(images.read(i).view) > 1;
    found.same_size = found.same_size && size == *found.first_size;
    found.side = std::max({found.side, size.height, size.width});
  }
}

SniffedImages sniff_images(const std::string& path) {
  SniffedImages found;
  const TopFolders folders = top_folders(path);
  found.train = first_of(folders, {"train", "training"}).name;
  if (!found.train.empty()) {
    const TopFolder eval =
        first_of(folders, {"val", "valid", "validation", "test", "testing", "dev", "eval"});
    (eval.has_classes ? found.eval : found.unlabelled) = eval.name;
  }
  const std::unique_ptr<ImageFiles> images = images_in(path, found.train);
  found.classes = count_by_class(*images, path);
  found.count = static_cast<int64_t>(images->files().size());
  if (found.classes.size() < 2) {
    throw DataError(
        text("'{}' has images of one class only, '{}'", path, found.classes.begin()->first),
        class_folders_hint(*images, path));
  }
  read_sizes(*images, found);
  if (!found.eval.empty()) read_sizes(*images_in(path, found.eval), found);
  return found;
}

bool is_resized(const SniffedImages& images) {
  return !images.same_size || images.side > kLargestSide;
}

std::string classes_text(const std::map<std::string, int64_t>& classes) {
  std::vector<std::string> parts;
  for (const auto& [name, count] : classes) {
    if (parts.size() == kClassesToPrint) {
      parts.push_back(text("and {} more", classes.size() - kClassesToPrint));
      break;
    }
    parts.push_back(text("'{}' {}", printable(name), count));
  }
  return joined(parts);
}

/// Names the eval split, and the classes by which it differs.
void note_eval_images(const std::string& path, const SniffedImages& images, RecipeDraft& draft) {
  const std::unique_ptr<ImageFiles> files = images_in(path, images.eval);
  const std::map<std::string, int64_t> classes = count_by_class(*files, path);
  draft.findings.push_back(
      text("eval: the {} images of folder '{}'", files->files().size(), images.eval));
  for (const auto& [name, count] : classes) {
    if (images.classes.contains(name)) continue;
    throw DataError(text("folder '{}' has the class '{}', which has no training images",
                         images.eval, printable(name)),
                    "move its images, or add some to the training folder");
  }
}

void add_image_findings(const fs::path& path, const SniffedImages& images, RecipeDraft& draft) {
  draft.findings.push_back(
      text("{} images by class: {}", images.count, classes_text(images.classes)));
  draft.findings.push_back(
      images.same_size ? text("sizes of {} opened images: equal, up to {} pixels a side",
                              images.opened, images.side)
                       : text("sizes of {} opened images: different, up to {} pixels a side",
                              images.opened, images.side));
  note_class_counts({images.classes.begin(), images.classes.end()}, draft);
  if (images.damaged > 0) {
    draft.findings.push_back(images.first_damaged);
    draft.findings.push_back(
        text("{} of {} opened images are damaged: such images are skipped and "
             "counted, and more than twice as many are an error",
             images.damaged, images.opened));
  }
  if (images.turned > 0) {
    draft.findings.push_back(
        text("{} of {} opened images have an EXIF orientation, which is not applied, as in "
             "torchvision: 'exif_orientation: true' turns them",
             images.turned, images.opened));
  }
  if (draft.weights.empty() && is_resized(images)) {
    draft.findings.push_back(
        "images are resized to 64 x 64, because all must have one size; 224 x 224 shows more and "
        "is slower");
  }
  if (!images.unlabelled.empty()) {
    draft.findings.push_back(
        text("folder '{}' is not read: its images are not in class folders", images.unlabelled));
  }
  if (images.train.empty()) {
    hold_out(draft, images.count);
  } else if (images.eval.empty()) {
    draft.findings.push_back(text("training images: folder '{}'", images.train));
    hold_out(draft, images.count);
  } else {
    note_eval_images(path.string(), images, draft);
  }
}

/// `on_bad_sample`, where damaged images were seen.
std::string skip_line(const SniffedImages& images) {
  if (images.damaged == 0) return "";
  const int64_t most = images.opened >= images.count
                           ? images.damaged
                           : 2 * images.damaged * images.count / images.opened;
  return text("on_bad_sample: skip({})", most);
}

/// `sizes` has the options that resize.
std::vector<std::string> image_lines(const fs::path& path, const std::string& split,
                                     const SniffedImages& images,
                                     const std::vector<std::string>& sizes) {
  const bool archive = fs::is_regular_file(path);
  std::vector<std::string> lines = {
      "type: image_folder",
      "path: " + (archive ? in_data(path.filename().string()) : std::string("\"${vars.data}\""))};
  if (!split.empty()) lines.push_back("split: " + split);
  append_lines(lines, sizes);
  if (const std::string line = skip_line(images); !line.empty()) lines.push_back(line);
  return lines;
}

void use_small_resnet(RecipeDraft& draft) {
  draft.model = {"type: resnet", "depth: 18", "embedding_size: 16  # 64 is standard, and slower"};
  draft.transform = {"- {type: random_flip}", "- {type: normalize, mean: [0.5], std: [0.25]}"};
  draft.others.push_back(
      "a model that transformers loads without 'trust_remote_code' after 'export': 'stem: "
      "imagenet', for images of 64 pixels and more");
  draft.others.push_back("fine-tuning a pretrained ResNet or ViT of Hugging Face: --model FOLDER");
}

/// Sets the model of a draft to the folder's, with its image processor. Returns the options of
/// datasets that resize.
std::vector<std::string> use_vision_weights(RecipeDraft& draft, const fs::path& folder) {
  const nlohmann::json config = config_of_folder(folder);
  const std::string type = model_type_in(config, folder);
  if (type != "vit" && type != "resnet" && type != "small_image_resnet") {
    throw Error(
        ExitCode::kRecipe,
        text("'--model {}' is a '{}' model, which classifies no images", folder.string(), type),
        "name the folder of a ViT or ResNet");
  }
  const ImageProcessor processor = read_image_processor(folder, config);
  for (const std::string& note : processor.notes) draft.findings.push_back(note);
  draft.weights = folder;
  draft.model = {"type: auto", "weights: \"${vars.weights}\""};
  draft.lr = "5e-5";
  draft.until = "3 epochs";
  draft.transform = processor_transforms(processor, "- {type: random_flip}");
  return size_lines(processor);
}

std::vector<std::string> idx_lines(const std::string& images) {
  std::string labels = images;
  labels.replace(labels.find("images"), 6, "labels").replace(labels.find("idx3"), 4, "idx1");
  return {"type: idx", "images: " + in_data(images), "labels: " + in_data(labels)};
}

}  // namespace

std::string no_images_reason(const fs::path& path) {
  try {
    open_image_files(path.string(), "");
    return "";
  } catch (const DataError& error) {
    const std::string reason = error.what();
    return error.hint().empty() ? reason : reason + ": " + error.hint();
  }
}

RecipeDraft draft_images(const fs::path& path, const DraftRequest& request) {
  const SniffedImages images = sniff_images(path.string());
  RecipeDraft draft;
  draft.title = text("Classifies images into {} classes, from {} examples.", images.classes.size(),
                     images.count);
  draft.folder = fs::is_regular_file(path) ? folder_of(path) : path;
  draft.task = "classification";
  draft.metric = "accuracy";
  draft.batch = batch_for(images.count, request.model.empty() ? 64 : 32);
  std::vector<std::string> sizes;
  if (request.model.empty()) {
    use_small_resnet(draft);
    if (is_resized(images)) sizes = {"size: [64, 64]  # all images must have one size"};
  } else {
    sizes = use_vision_weights(draft, request.model);
  }
  add_image_findings(path, images, draft);
  draft.train = image_lines(path, images.train, images, sizes);
  if (!images.eval.empty()) draft.eval = image_lines(path, images.eval, images, sizes);
  return draft;
}

bool is_idx_images(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.find("images") != std::string::npos && name.find("idx3") != std::string::npos;
}

RecipeDraft draft_idx(const fs::path& train) {
  RecipeDraft draft;
  const std::string name = train.filename().string();
  draft.title = text("Classifies the images in {}.", printable(name));
  draft.folder = folder_of(train);
  draft.model = {"type: lenet", "dropout: 0.25"};
  draft.task = "classification";
  draft.metric = "accuracy";
  draft.train = idx_lines(name);
  const fs::path other = eval_file(train);
  if (other.empty()) {
    hold_out(draft, read_idx(train.string()).shape().front());
  } else {
    draft.eval = idx_lines(other.filename().string());
    draft.findings.push_back(text("eval: the images of {}", printable(other.filename().string())));
  }
  draft.transform = {"- {type: normalize, mean: [0.13], std: [0.31]}"};
  draft.until = "6 epochs";
  return draft;
}

}  // namespace accel
