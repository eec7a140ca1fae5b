// Shard files of record datasets, read one after another: on this machine or in an object store.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/mapped_file.h"
#include "data/datasets/text/text_columns.h"
#include "data/datasets/text/text_records.h"
#include "data/store/streamed_objects.h"
#include "data/store/streaming_section.h"

namespace accel {

/// Options of record datasets that are also streamed.
struct StreamedRecordOptions : TextRecordOptions {
  DataPath location;
  StreamingSection streaming;

  /// The options of record datasets.
  TextRecordOptions records() const {
    TextRecordOptions out = *this;
    out.path.text = location.text;
    return out;
  }
};

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

 private:
  std::vector<std::string> paths_;
  std::vector<SharedBytes> mapped_;
  std::shared_ptr<StreamedObjects> objects_;  ///< null: the files are mapped
  std::vector<std::string> identities_;       ///< of the objects
};

}  // namespace accel
