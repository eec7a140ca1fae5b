// Every file call a checkpoint makes, behind one interface, so that tests can fail any of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "runner/formats/bytes.h"
#include "runner/formats/mapped_file.h"

namespace accel {

/// A file call that failed. `code()` is the errno, `what()` "cannot write 'path': No space ...".
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
  /// After this returns the content survives a crash of the machine. When it throws, the content
  /// is lost: never call it twice for one file.
  virtual void sync() = 0;
  virtual void close() = 0;
};

/// All calls throw FileError. Paths are absolute or relative to the working folder.
class Files {
 public:
  virtual ~Files() = default;

  /// Whether several threads may call at once.
  virtual bool threads() const { return false; }
  /// Fails when the path exists.
  virtual std::unique_ptr<OutputFile> create(const std::string& path) = 0;
  /// The whole file. Follows symbolic links: whoever must not looks at list()
  /// first. It is mapped: read it behind
  /// survives_bus_error() once before it is used.
  virtual SharedBytes read(const std::string& path) = 0;
  /// Makes the folder and its parents; one that exists is fine.
  virtual void make_dirs(const std::string& path) = 0;
  /// Makes names created, renamed or removed in a folder survive a crash.
  virtual void sync_dir(const std::string& path) = 0;
  /// Atomic. Fails when `to` is a file or a folder with something in it.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  /// Removes a file or a folder and all in it; a missing one is fine.
  virtual void remove_tree(const std::string& path) = 0;
  /// Sorted by name. A missing folder is empty.
  virtual std::vector<DirEntry> list(const std::string& path) = 0;
  /// Bytes that can still be written to the file system of `path`.
  virtual int64_t free_space(const std::string& path) = 0;
};

/// The real ones.
class DiskFiles final : public Files {
 public:
  bool threads() const override { return true; }
  std::unique_ptr<OutputFile> create(const std::string& path) override;
  SharedBytes read(const std::string& path) override;
  void make_dirs(const std::string& path) override;
  void sync_dir(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void remove_tree(const std::string& path) override;
  std::vector<DirEntry> list(const std::string& path) override;
  int64_t free_space(const std::string& path) override;
};

}  // namespace accel
