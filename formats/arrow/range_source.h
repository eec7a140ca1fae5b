// A RangeFile as a file of Arrow.
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/result.h>
#include <arrow/status.h>

#include <exception>
#include <memory>

#include "formats/arrow/range_file.h"

namespace accel {

/// Reads on the thread of the caller. Arrow passes errors on as a Status; the exception is kept.
class RangeSource final : public arrow::io::RandomAccessFile {
 public:
  explicit RangeSource(const RangeFile& file) : file_(file) {}

  arrow::Status Close() override;
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Seek(int64_t position) override;
  arrow::Result<int64_t> GetSize() override { return file_.size(); }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override;
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t bytes, bool allow_short_read,
                                void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t bytes,
                                                       bool allow_short_read) override;
  using RandomAccessFile::ReadAt;

  /// Throws the exception of a read that failed.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const RangeFile& file_;
  int64_t position_ = 0;
  bool closed_ = false;
  std::exception_ptr error_;
};

}  // namespace accel
