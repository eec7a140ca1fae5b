// Records of named fields, whatever the format of the file they lie in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accel {

/// Reads a file record by record, of each the fields that were wanted when it was opened.
class RecordReader {
 public:
  virtual ~RecordReader() = default;

  /// The wanted fields of the next record, in their order, as text: numbers, true and false as JSON
  /// spells them. False at the end. The views last until the next call. Throws DataError with the
  /// place of a record that cannot be read; the next call then goes on behind it.
  virtual bool next(std::vector<std::string_view>& fields) = 0;

  /// Of the record just read: "train.jsonl:3".
  virtual std::string place() const = 0;
};

}  // namespace accel
