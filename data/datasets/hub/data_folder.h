// Folders with the files of a dataset: on this machine, or in an object store.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/store/streamed_objects.h"

namespace accel {

class DataFolder {
 public:
  virtual ~DataFolder() = default;

  /// Of the folder, for messages.
  virtual const std::string& path() const = 0;
  /// All files below it: relative, sorted, without hidden ones. None: its server lists no files.
  virtual std::optional<std::vector<std::string>> names() const = 0;
  /// The content of a small file; none if it is missing.
  virtual std::optional<std::string> text(const std::string& name) const = 0;
};

/// Of this machine.
class DiskFolder final : public DataFolder {
 public:
  explicit DiskFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const override { return path_; }
  /// Throws DataError for another path than a folder's.
  std::optional<std::vector<std::string>> names() const override;
  std::optional<std::string> text(const std::string& name) const override;

 private:
  std::string path_;
};

/// Of a URL. Throws the errors of ObjectStore.
class StoreFolder final : public DataFolder {
 public:
  /// `store` must outlive it.
  explicit StoreFolder(ObjectStore& store) : store_(store), url_(store.url_of("")) {}

  const std::string& path() const override { return url_; }
  std::optional<std::vector<std::string>> names() const override;
  std::optional<std::string> text(const std::string& name) const override;

 private:
  ObjectStore& store_;
  std::string url_;
};

}  // namespace accel
