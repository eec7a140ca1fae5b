// Samples of WebDataset's archives: tar members whose names differ behind the first dot alone.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/formats/records.h"
#include "runner/formats/tar.h"

namespace accel {

/// The samples of one archive in their order, of each some fields that are texts. A field is what
/// stands behind the first dot of a member's name, in lower case: "txt" of "a/0001.txt".
/// "json.title" is the key "title" of the field "json", where there is no member of that name.
class WebdatasetReader final : public RecordReader {
 public:
  /// `archive` must outlive the reader; `name` is for messages. Throws as index_tar() does.
  WebdatasetReader(std::span<const std::byte> archive, std::vector<std::string> wanted,
                   std::string name);

  /// A line end behind a field is left out. Throws DataError for a sample that lacks a field, has
  /// one twice, or one that is no UTF-8.
  bool next(std::vector<std::string_view>& fields) override;
  /// "train.tar:a/0001", of the sample just read.
  std::string place() const override { return name_ + ":" + key_; }

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
