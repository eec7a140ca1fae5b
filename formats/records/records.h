// Readers of records with named fields.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace accel {

/// Reads a file record by record; the fields to read are chosen when it is opened.
class RecordReader {
 public:
  virtual ~RecordReader() = default;

  /// Reads the wanted fields of the next record, in order, as text: numbers, true and false as in
  /// JSON. False at the end. The views are valid until the next call. Throws DataError with the
  /// location of an unreadable record; the next call then reads the record after it.
  virtual bool next(std::vector<std::string_view>& fields) = 0;

  /// Location of the last record: "train.jsonl:3".
  virtual std::string location() const = 0;
};

/// Concatenates the records of several readers, of which one is open at a time.
class ChainedReader final : public RecordReader {
 public:
  /// Opens reader `index`, after the previous one is closed. Its DataError is not one of a record:
  /// next() throws it as another Error of its code.
  using Open = std::function<std::unique_ptr<RecordReader>(size_t index)>;

  /// `count` is at least 1.
  ChainedReader(size_t count, Open open)
      : count_(count), open_(std::move(open)), reader_(open_(0)) {}

  bool next(std::vector<std::string_view>& fields) override {
    while (!reader_->next(fields)) {
      if (++index_ >= count_) return false;
      reader_.reset();
      try {
        reader_ = open_(index_);
      } catch (const DataError& error) {
        throw Error(error.code(), error.what(), error.hint());
      }
    }
    return true;
  }
  std::string location() const override { return reader_->location(); }

 private:
  size_t count_, index_ = 0;
  Open open_;
  std::unique_ptr<RecordReader> reader_;
};

}  // namespace accel
