// File system interface: the real one, doubles that fail in tests, and atomic writes on top of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/mapped_file.h"

namespace accel {

/// A failed file call. `code()` is the errno, `what()` "cannot write 'path': No space ...".
class FileError : public std::system_error {
 public:
  FileError(const std::string& action, const std::string& path, int error)
      : std::system_error(error, std::generic_category(), "cannot " + action + " '" + path + "'") {}
};

struct DirEntry {
  enum class Kind { kFile, kFolder, kOther };  ///< a symbolic link is kOther

  std::string name;
  Kind kind = Kind::kOther;
  int64_t bytes = 0;  ///< of a file
};

/// A file being written. Destroying it without close() closes it and ignores errors.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  /// Writes all of `bytes` or throws FileError.
  virtual void write(ByteSpan bytes) = 0;
  /// Makes the content survive a crash of the machine. When it throws, the content is lost: never
  /// call it twice for one file.
  virtual void sync() = 0;
  virtual void close() = 0;
};

/// All calls throw FileError. Paths are absolute or relative to the working folder.
class Files {
 public:
  virtual ~Files() = default;

  /// Whether it is thread-safe.
  virtual bool threads() const { return false; }
  /// Fails when the path exists.
  virtual std::unique_ptr<OutputFile> create(const std::string& path) = 0;
  /// Maps the file. Follows symbolic links: check list() first where they are not allowed. Read
  /// the bytes once inside survives_bus_error() before use.
  virtual SharedBytes read(const std::string& path) = 0;
  /// Creates the folder and its parents; an existing one is kept. `within`: a parent that must
  /// exist; "": none.
  virtual void make_dirs(const std::string& path, const std::string& within) = 0;
  void make_dirs(const std::string& path) { make_dirs(path, ""); }
  /// fsync of a folder: created, renamed and removed names survive a crash of the machine.
  virtual void sync_dir(const std::string& path) = 0;
  /// Atomic. Fails when `to` is a file or a folder with something in it.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  /// Removes a file or a folder with its content; a missing one is ignored.
  virtual void remove_tree(const std::string& path) = 0;
  /// Sorted by name. A missing folder is empty.
  virtual std::vector<DirEntry> list(const std::string& path) = 0;
  /// Free bytes of the file system of `path`.
  virtual int64_t free_space(const std::string& path) = 0;
};

/// The file system of the machine.
class DiskFiles final : public Files {
 public:
  bool threads() const override { return true; }
  std::unique_ptr<OutputFile> create(const std::string& path) override;
  SharedBytes read(const std::string& path) override;
  using Files::make_dirs;
  void make_dirs(const std::string& path, const std::string& within) override;
  void sync_dir(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void remove_tree(const std::string& path) override;
  std::vector<DirEntry> list(const std::string& path) override;
  int64_t free_space(const std::string& path) override;
};

/// The parent folder of `path`; "." for a bare name.
std::string folder_of(const std::string& path);
/// Creates the parent folder of `path`. Throws IoError.
void make_folder_of(const std::string& path);

/// Passes the content of a file to the sink, in order.
using FileWriter = std::function<void(const ByteSink& write)>;

/// Replaces `path` atomically: a draft in its folder is written, synced and renamed, then the
/// folder is synced. Readers and crashes see the old file or the new one. A draft that fails is
/// removed. Throws FileError that names `path`, or the writer's exception.
void write_file_atomically(Files& files, const std::string& path, const FileWriter& writer);
void write_file_atomically(Files& files, const std::string& path, std::string_view bytes);
/// On disk; throws IoError.
void write_file_atomically(const std::string& path, const FileWriter& writer);
void write_file_atomically(const std::string& path, std::string_view bytes);
/// Creates the folder first.
void write_file_with_folder(const std::string& path, std::string_view bytes);

/// Syncs the complete file or folder `from` and renames it to `to` in the same folder. Throws
/// IoError.
void publish_file(const std::string& from, const std::string& to);

/// The hint of an IoError with this errno: for a full disk and a limit on the file's size.
std::string full_disk_hint(int error);

}  // namespace accel
