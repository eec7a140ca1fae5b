#include "runner/cli/sniff_images.h"

#include <algorithm>
#include <memory>
#include <set>

#include "core/error.h"
#include "data/image_files.h"
#include "runner/formats/image.h"

namespace accel {
namespace {

constexpr int64_t kImagesToOpen = 20;

/// Null when there are no images in that folder.
std::unique_ptr<ImageFiles> images_in(const std::string& path, const std::string& split) {
  try {
    return open_image_files(path, split);
  } catch (const DataError&) {
    return nullptr;
  }
}

/// The first of `names` that is a folder with images, or "".
std::string first_with_images(const std::string& path, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (images_in(path, name)) return name;
  }
  return "";
}

void look_at_sizes(const ImageFiles& images, SniffedImages& found) {
  const auto count = static_cast<int64_t>(images.files().size());
  const int64_t step = std::max<int64_t>(1, count / kImagesToOpen);
  std::optional<ImageSize> first;
  for (int64_t i = 0; i < count; i += step) {
    const ImageSize size = image_size(images.read(i).view, images.name(i));
    if (!first) first = size;
    found.same_size = found.same_size && size == *first;
    found.side = std::max({found.side, size.height, size.width});
  }
}

}  // namespace

std::optional<SniffedImages> sniff_images(const std::string& path) {
  SniffedImages found;
  found.train = first_with_images(path, {"train", "training"});
  if (!found.train.empty()) {
    found.eval = first_with_images(path, {"test", "val", "valid", "validation", "dev", "eval"});
  }
  const std::unique_ptr<ImageFiles> images = images_in(path, found.train);
  if (!images) return std::nullopt;
  std::set<std::string> classes;
  for (const ImageFile& file : images->files()) {
    const size_t slash = file.path.find('/');
    if (slash == std::string::npos) {
      throw DataError("the images in '" + path + "' lie in no class folders",
                      "give each class a folder of its own: cat/1.jpg, dog/1.jpg");
    }
    classes.insert(file.path.substr(0, slash));
  }
  found.count = static_cast<int64_t>(images->files().size());
  found.classes = static_cast<int64_t>(classes.size());
  look_at_sizes(*images, found);
  return found;
}

}  // namespace accel
