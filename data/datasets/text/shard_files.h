// Shard files of record datasets, read one after another: on this machine or in an object store.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/mapped_file.h"
#include "data/datasets/text/text_columns.h"
#include "data/store/streamed_objects.h"

namespace accel {

class ShardFiles {
 public:
  /// Files on this machine.
  explicit ShardFiles(const std::vector<std::string>& paths);
  /// All objects.
  explicit ShardFiles(std::shared_ptr<StreamedObjects> objects);

  size_t count() const { return paths_.size(); }
  /// Path or URL, for messages.
  const std::string& path(size_t shard) const { return paths_[shard]; }
  /// Its bytes. Streamed shards are fetched in the order of their numbers, ahead of the reader that
  /// begins with the first.
  SharedBytes open(size_t shard) const;
  FileContents contents() const;
  /// Of one shard.
  FileContent content(size_t shard) const;

 private:
  std::vector<std::string> paths_;
  std::vector<SharedBytes> mapped_;
  std::shared_ptr<StreamedObjects> objects_;  ///< null: the files are mapped
  std::vector<std::string> identities_;       ///< of the objects
};

/// A file of records: mapped from this machine, or one of several objects, which is mapped while it
/// is read.
class RecordFile {
 public:
  enum class Content { kBytes, kText };  ///< kText: as UTF-8

  RecordFile(const std::string& path, Content content);
  RecordFile(std::shared_ptr<const ShardFiles> objects, size_t object, Content content);

  /// Path or URL, for messages.
  const std::string& path() const { return path_; }
  SharedBytes open() const;
  FileContents contents() const;

 private:
  std::string path_;
  Content content_;
  SharedBytes bytes_;                          ///< of a file on this machine
  std::shared_ptr<const ShardFiles> objects_;  ///< null: a file on this machine
  size_t object_ = 0;
};

}  // namespace accel
