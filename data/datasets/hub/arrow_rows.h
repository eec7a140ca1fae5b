// Rows of Parquet and Arrow files, read through libaccel_arrow.so.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/mapped_file.h"
#include "data/datasets/text/text_columns.h"
#include "formats/arrow/arrow_records.h"

namespace accel {

class DataFolder;
class ShardFiles;
class StreamedObjects;

struct ArrowFiles {
  std::vector<std::string> data;     ///< in row order
  std::vector<std::string> indices;  ///< if not empty: row numbers into `data`, in order
};

/// The files of a dataset: a single file, or the files of a folder sorted by name. The folder may
/// be written by Hugging Face's `save_to_disk`, with one or several splits; `split` selects one,
/// also by hub file names such as "train-00000-of-00002.parquet". Throws DataError without files,
/// and if `split` is empty and there are several splits.
ArrowFiles arrow_files(const std::string& path, const std::string& split, ArrowFormat format);

/// The splits of a DatasetDict that save_to_disk wrote; empty for other folders.
std::set<std::string> saved_splits(const DataFolder& folder);

/// The files of a dataset that save_to_disk wrote, relative to the folder; none for other folders.
/// Throws DataError unless `split` is one of saved_splits(), or empty without any.
std::optional<ArrowFiles> saved_files(const DataFolder& folder, const std::string& split);

/// The same files with the folder before their names.
ArrowFiles in_folder(const std::string& folder, ArrowFiles files);

/// Those of the sorted `names` of files in `folder` that are of `split`. Throws as arrow_files().
std::vector<std::string> names_of_split(const std::string& folder, std::vector<std::string> names,
                                        const std::string& split);

/// Throws DataError naming `path` if this build lacks libaccel_arrow.so.
void require_arrow(const std::string& path);

/// The concatenated rows of all files, or the rows selected by index files.
class ArrowRows {
 public:
  /// Throws DataError for a missing file, and as require_arrow().
  ArrowRows(const ArrowFiles& files, ArrowFormat format);
  /// Objects of a store, of which the last `indices` are row numbers. Parquet is read by ranges;
  /// Arrow files are mapped, one at a time, or all of them with indices. Throws DataError if those
  /// exceed the cache.
  ArrowRows(const std::shared_ptr<StreamedObjects>& objects, ArrowFormat format,
            size_t indices = 0);

  /// `kinds` as in ArrowRequest. This object must outlive the reader.
  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted,
                                     const std::vector<ArrowField>& kinds = {}) const;
  /// As open(); a null is a view without data.
  std::unique_ptr<RecordReader> open_with_nulls(const std::vector<std::string>& wanted,
                                                const std::vector<ArrowField>& kinds) const;
  /// Of the first file.
  std::vector<ArrowColumn> columns() const;
  /// What all files hold.
  FileContents contents() const;
  /// As ArrowRecords::class_names(), of a field that is read as `kind`.
  std::vector<std::string> class_names(const std::string& field,
                                       ArrowField kind = ArrowField::kText) const;
  ArrowFormat format() const { return format_; }

 private:
  struct File {
    std::string path;
    SharedBytes bytes;
    std::shared_ptr<const RangeFile> ranges = {};    ///< in place of the bytes
    std::string identity = {};                       ///< of a file that is read by ranges
    std::shared_ptr<const ShardFiles> objects = {};  ///< in place of the bytes
    size_t object = 0;
  };
  class Selected;

  std::unique_ptr<RecordReader> open_all(ArrowRequest request) const;
  std::unique_ptr<ArrowRecords> open_file(const File& file, ArrowRequest request) const;

  ArrowFunction open_;
  ArrowFormat format_;
  std::vector<File> files_, indices_;
};

}  // namespace accel
