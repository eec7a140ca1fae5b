// The rows of Parquet and Arrow files, through the part that is loaded when one is opened.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/arrow_files.h"
#include "data/text_columns.h"
#include "runner/formats/arrow_records.h"
#include "runner/formats/mapped_file.h"

namespace accel {

/// Throws DataError for `path`, which names the data, where this build lacks the part.
void require_arrow(const std::string& path);

/// The rows of all files as those of one, or, where there are files of indices, those rows that
/// they name.
class ArrowRows {
 public:
  /// Throws DataError for a file that is not there, and as require_arrow().
  ArrowRows(const ArrowFiles& files, ArrowFormat format);

  /// `kinds` as of ArrowRequest. What is opened must not outlive this.
  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted,
                                     const std::vector<ArrowField>& kinds = {}) const;
  /// All bytes that the rows come from.
  FileContents contents() const;
  std::vector<std::string> class_names(const std::string& field) const;
  ArrowFormat format() const { return format_; }

 private:
  struct File {
    std::string path;
    SharedBytes bytes;
  };
  class Chained;
  class Selected;

  std::unique_ptr<ArrowRecords> open_file(const File& file, ArrowRequest request) const;

  ArrowFunction open_;
  ArrowFormat format_;
  std::vector<File> files_, indices_;
};

}  // namespace accel
