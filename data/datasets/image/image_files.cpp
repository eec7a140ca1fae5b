#include "data/datasets/image/image_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "formats/archive/tar.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

bool is_hidden(std::string_view path) {
  return path.starts_with('.') || path.find("/.") != std::string_view::npos;
}

/// Whether a path has an extension of JPEG or PNG. Throws DataError for other image formats instead
/// of ignoring them.
bool is_wanted(const std::string& path) {
  std::string extension = fs::path(path).extension();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (is_hidden(path)) return false;
  for (const char* other : {".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".avif"}) {
    if (extension == other) {
      throw DataError(text("'{}' is neither a JPEG nor a PNG image", path),
                      "convert it, such as by 'mogrify -format png FILE', or move it out of the "
                      "dataset's folder");
    }
  }
  constexpr std::string_view kWanted[] = {".jpg", ".jpeg", ".jpe", ".jfif", ".jfi", ".png"};
  return std::find(std::begin(kWanted), std::end(kWanted), extension) != std::end(kWanted);
}

/// `path` relative to `folder`; none if it is not inside.
std::optional<std::string> below(const std::string& path, const std::string& folder) {
  if (folder.empty()) return path;
  if (!path.starts_with(folder + "/")) return std::nullopt;
  return path.substr(folder.size() + 1);
}

/// The single folder that contains all members, as of a packed folder; "" if there is none.
std::string wrapping_folder(const std::vector<TarMember>& members) {
  std::string folder;
  for (const TarMember& member : members) {
    const size_t end = member.name.find('/');
    if (end == std::string::npos) return "";
    if (folder.empty()) folder = member.name.substr(0, end);
    if (!below(member.name, folder)) return "";
  }
  return folder;
}

/// The folder of `split` in an archive: at the top, or in the single folder that contains all
/// members.
std::string folder_of_split(const std::vector<TarMember>& members, const std::string& split) {
  const std::string wrapping = wrapping_folder(members);
  if (split.empty()) return wrapping;
  const bool at_top = std::any_of(members.begin(), members.end(), [&](const TarMember& member) {
    return below(member.name, split).has_value();
  });
  return at_top || wrapping.empty() ? split : wrapping + "/" + split;
}

class FolderFiles final : public ImageFiles {
 public:
  explicit FolderFiles(fs::path root) : root_(std::move(root)) {
    // Class folders may be symbolic links. Cyclic links end in an error of the OS.
    constexpr auto kOptions = fs::directory_options::follow_directory_symlink;
    std::error_code error;
    for (fs::recursive_directory_iterator at(root_, kOptions, error), end; !error && at != end;
         at.increment(error)) {
      std::string path = at->path().lexically_relative(root_);
      std::error_code unknown;
      if (at.depth() == 0 && at->is_directory(unknown) && !is_hidden(path)) {
        folders_.push_back(path);
      }
      if (!at->is_regular_file(unknown) || !is_wanted(path)) continue;
      files_.push_back({std::move(path), static_cast<int64_t>(at->file_size())});
    }
    if (error) throw DataError(text("cannot read '{}': {}", root_.string(), error.message()));
    std::sort(files_.begin(), files_.end(),
              [](const ImageFile& a, const ImageFile& b) { return a.path < b.path; });
  }

  SharedBytes read(int64_t index) const override { return map_file(name(index)); }
  std::string name(int64_t index) const override {
    return root_ / files_[static_cast<size_t>(index)].path;
  }

 private:
  fs::path root_;
};

class TarFiles final : public ImageFiles {
 public:
  TarFiles(const std::string& path, const std::string& split)
      : path_(path), archive_(map_file(path)) {
    std::vector<TarMember> all = index_tar(archive_.view, path);
    std::erase_if(all, [](const TarMember& member) { return is_hidden(member.name); });
    const std::string folder = folder_of_split(all, split);
    std::map<std::string, TarMember> members;
    for (TarMember& member : all) {
      const std::optional<std::string> name = below(member.name, folder);
      if (!name || !is_wanted(*name)) continue;
      members.insert_or_assign(*name, std::move(member));  // the last of equal names counts
    }
    for (auto& [name, member] : members) {
      files_.push_back({name, static_cast<int64_t>(member.size)});
      members_.push_back(std::move(member));
    }
  }

  SharedBytes read(int64_t index) const override {
    const TarMember& member = members_[static_cast<size_t>(index)];
    return {archive_.view.subspan(member.offset, member.size), archive_.owner};
  }
  std::string name(int64_t index) const override {
    return path_ + ":" + members_[static_cast<size_t>(index)].name;
  }

 private:
  std::string path_;
  SharedBytes archive_;
  std::vector<TarMember> members_;
};

/// One image outside any folder.
class OneFile final : public ImageFiles {
 public:
  explicit OneFile(std::string path) : path_(std::move(path)) {
    const bool is_descriptor = path_.starts_with("/proc/self/fd/");
    const std::string name = is_descriptor ? "" : fs::path(path_).filename().string();
    files_.push_back({name, static_cast<int64_t>(map_file(path_).view.size())});
  }

  SharedBytes read(int64_t /*index*/) const override { return map_file(path_); }
  std::string name(int64_t /*index*/) const override { return path_; }

 private:
  std::string path_;
};

/// Whether a file is a .tar archive, by its name or by the mark of POSIX.
bool is_archive(const std::string& path) {
  if (fs::path(path).extension() == ".tar") return true;
  constexpr size_t kMarkAt = 257;
  std::string head(kMarkAt + 5, '\0');
  std::ifstream(path, std::ios::binary)
      .read(head.data(), static_cast<std::streamsize>(head.size()));
  return head.substr(kMarkAt) == "ustar";
}

}  // namespace

bool is_image_file(const std::string& path) {
  std::array<char, 4> first = {};
  std::ifstream(path, std::ios::binary).read(first.data(), first.size());
  const std::string_view bytes(first.data(), first.size());
  return bytes.starts_with("\xff\xd8\xff") || bytes == "\x89PNG";
}

std::unique_ptr<ImageFiles> open_image_files(const std::string& path, const std::string& split) {
  const std::string place = split.empty() ? path : path + "/" + split;
  std::unique_ptr<ImageFiles> files;
  if (fs::is_directory(path)) {
    if (!fs::is_directory(place)) throw DataError(text("no folder '{}'", place));
    files = std::make_unique<FolderFiles>(place);
  } else if (is_image_file(path)) {
    files = std::make_unique<OneFile>(path);
  } else {
    is_wanted(fs::path(path).filename());  // refuses other image formats
    if (fs::exists(path) && !is_archive(path)) {
      throw DataError(text("'{}' is not an image, a folder of images or a .tar of them", path),
                      "images are JPEG and PNG");
    }
    files = std::make_unique<TarFiles>(path, split);
  }
  if (files->files().empty()) throw DataError(text("no JPEG or PNG images in '{}'", place));
  return files;
}

}  // namespace accel
