// JSON Lines: an object a line, of which some fields are wanted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/formats/records.h"

namespace accel {

/// Reads line by line out of memory; blank lines are skipped, and so is a byte order mark.
class JsonlReader final : public RecordReader {
 public:
  /// `text` must outlive the reader; `name` is for messages.
  JsonlReader(std::span<const std::byte> text, std::vector<std::string> wanted, std::string name);

  /// Throws DataError for a line above 16 MiB, one that is no JSON object, that has a key twice,
  /// nests too deeply, or whose wanted field is absent or of another kind.
  bool next(std::vector<std::string_view>& fields) override;

  /// Bytes that it is done with.
  size_t offset() const { return std::min(at_, text_.size()); }

  /// "train.jsonl:3", of the object just read.
  std::string place() const override { return name_ + ":" + std::to_string(line_); }

 private:
  bool next_line(std::string_view& line);

  std::string_view text_;
  std::vector<std::string> wanted_;
  std::string name_;
  size_t at_ = 0;
  int64_t line_ = 0;
  std::vector<std::string> values_;
};

}  // namespace accel
