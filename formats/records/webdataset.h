// Reader of WebDataset archives: a sample is the tar members whose names are equal up to the first
// dot.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/archive/tar.h"
#include "formats/records/records.h"

namespace accel {

/// Reads text fields of samples. A field is the extension of a member after the first dot, in lower
/// case: "txt" of "a/0001.txt". "json.title" is the key "title" of the field "json", unless a
/// member has that name.
class WebdatasetReader final : public RecordReader {
 public:
  /// `archive` must outlive the reader; `name` is for messages. Throws as index_tar() does.
  WebdatasetReader(std::span<const std::byte> archive, std::vector<std::string> wanted,
                   std::string name);

  /// Strips a line end after a field. Throws DataError for a missing or duplicate field and for one
  /// that is not UTF-8.
  bool next(std::vector<std::string_view>& fields) override;
  /// "train.tar:a/0001"
  std::string location() const override { return name_ + ":" + key_; }

 private:
  struct Field {
    std::string name;
    std::string_view content;
  };

  void take_sample();
  std::string value_of(const std::string& wanted) const;
  std::optional<std::string_view> content_of(std::string_view field) const;

  std::span<const std::byte> archive_;
  std::vector<std::string> wanted_;
  std::string name_;
  std::vector<TarMember> members_;
  size_t at_ = 0;
  std::string key_;
  std::vector<Field> fields_;  // of the sample
  std::vector<std::string> values_;
};

}  // namespace accel
