#include "formats/arrow/range_source.h"

#include <arrow/buffer.h>
#include <arrow/memory_pool.h>

#include <algorithm>
#include <utility>

namespace accel {

arrow::Status RangeSource::Close() {
  closed_ = true;
  return arrow::Status::OK();
}

arrow::Status RangeSource::Seek(int64_t position) {
  position_ = position;
  return arrow::Status::OK();
}

arrow::Result<int64_t> RangeSource::Read(int64_t bytes, void* out) {
  ARROW_ASSIGN_OR_RAISE(const int64_t count, ReadAt(position_, bytes, true, out));
  position_ += count;
  return count;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> RangeSource::Read(int64_t bytes) {
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, ReadAt(position_, bytes, true));
  position_ += buffer->size();
  return buffer;
}

arrow::Result<int64_t> RangeSource::ReadAt(int64_t position, int64_t bytes, bool allow_short_read,
                                           void* out) {
  const int64_t count = std::clamp<int64_t>(file_.size() - position, 0, bytes);
  if (position < 0 || (count < bytes && !allow_short_read)) {
    return arrow::Status::IOError("it has no ", bytes, " bytes from ", position);
  }
  try {
    file_.read(position, {static_cast<std::byte*>(out), static_cast<size_t>(count)});
  } catch (const std::exception& error) {
    error_ = std::current_exception();
    return arrow::Status::IOError(error.what());
  }
  return count;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> RangeSource::ReadAt(int64_t position, int64_t bytes,
                                                                  bool allow_short_read) {
  const int64_t count = std::clamp<int64_t>(file_.size() - position, 0, bytes);
  ARROW_ASSIGN_OR_RAISE(auto buffer,
                        arrow::AllocateResizableBuffer(count, arrow::system_memory_pool()));
  ARROW_ASSIGN_OR_RAISE(const int64_t read,
                        ReadAt(position, bytes, allow_short_read, buffer->mutable_data()));
  ARROW_RETURN_NOT_OK(buffer->Resize(read, /*shrink_to_fit=*/false));
  return std::shared_ptr<arrow::Buffer>(std::move(buffer));
}

}  // namespace accel
