#include "data/datasets/hub/data_folder.h"

#include <algorithm>
#include <filesystem>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostOfAText = int64_t{64} << 20;

bool is_hidden(const std::string& component) {
  return component.starts_with('.') || component.starts_with("__");
}

bool is_hidden_path(const fs::path& name) {
  return std::any_of(name.begin(), name.end(),
                     [](const fs::path& part) { return is_hidden(part.string()); });
}

}  // namespace

std::optional<std::vector<std::string>> DiskFolder::names() const {
  if (!fs::is_directory(path_)) throw DataError(accel::text("'{}' is not a folder", path_));
  std::vector<std::string> out;
  for (fs::recursive_directory_iterator at(path_), end; at != end; ++at) {
    if (is_hidden(at->path().filename())) {
      if (at->is_directory()) at.disable_recursion_pending();
    } else if (at->is_regular_file()) {
      out.push_back(at->path().lexically_relative(path_).generic_string());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<std::string> DiskFolder::text(const std::string& name) const {
  const std::string path = path_ + "/" + name;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  return std::string(as_text(map_file(path).view));
}

std::optional<std::vector<std::string>> StoreFolder::names() const {
  const auto listing = store_.list(ListingDepth::kAll);
  if (!listing) return std::nullopt;
  std::vector<std::string> out;
  for (const ObjectInfo& object : *listing) {
    if (!object.name.ends_with('/') && !is_hidden_path(object.name)) out.push_back(object.name);
  }
  return out;
}

std::optional<std::string> StoreFolder::text(const std::string& name) const {
  if (!store_.find(name)) return std::nullopt;
  return read_object_text(store_, name, kMostOfAText);
}

}  // namespace accel
