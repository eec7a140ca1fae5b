#include "parallel/backends/shared_buffer.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/base/text.h"

namespace accel {
namespace {

/// The minimum: a SharedSegment's key.
constexpr size_t kHeaderBytes = 64;

/// The size of a rank's memory and the name of its segment.
struct SegmentInfo {
  uint64_t bytes;
  std::array<char, 64> name;
};

/// Elements, at least, that a thread reduces.
constexpr int64_t kGrain = int64_t{1} << 15;

template <class T>
Bytes bytes_of_object(T& object) {
  return std::as_writable_bytes(std::span(&object, 1));
}

}  // namespace

SharedBuffer::SharedBuffer(BlockExchange& exchange, uint64_t number, size_t bytes)
    : rank_(exchange.rank()), bytes_(bytes), segments_(static_cast<size_t>(exchange.world())) {
  std::unique_ptr<SharedSegment>& own = segments_[static_cast<size_t>(rank_)];
  own = std::make_unique<SharedSegment>(kHeaderBytes);
  own->resize(bytes);
  SegmentInfo info = {bytes, {}};
  own->name().copy(info.name.data(), info.name.size() - 1);
  publish_to_all(exchange, bytes_of_object(info), number);
  for (int64_t r = 0; r < exchange.world(); ++r) {
    const Bytes found = exchange.await(r, BlockExchange::kToAll, number);
    std::memcpy(&info, found.data(), std::min(found.size(), sizeof info));
    if (found.size() != sizeof info || info.bytes != bytes) {
      throw std::runtime_error(text("rank {} shares {} bytes, and not {}", r, info.bytes, bytes));
    }
    std::unique_ptr<SharedSegment>& segment = segments_[static_cast<size_t>(r)];
    if (!segment) {
      segment = std::make_unique<SharedSegment>(kHeaderBytes, std::string(info.name.data()));
    }
    exchange.release(r, BlockExchange::kToAll, number);
    data_.push_back(segment->data(0, bytes));
  }
  // All have mapped this rank's memory when they have published once more.
  publish_to_all(exchange, {}, number + 1);
  for (int64_t r = 0; r < exchange.world(); ++r) {
    exchange.await(r, BlockExchange::kToAll, number + 1);
    exchange.release(r, BlockExchange::kToAll, number + 1);
  }
  for (const std::unique_ptr<SharedSegment>& segment : segments_) segment->close();
}

bool SharedBuffer::contains(std::span<const std::byte> bytes) const {
  const std::byte* own = data(rank_);
  return bytes.data() >= own && bytes.data() + bytes.size() <= own + bytes_;
}

ReduceInPlace::ReduceInPlace(std::shared_ptr<BlockExchange> exchange,
                             std::shared_ptr<SharedBuffer> buffer, const at::Tensor& tensor,
                             c10d::ReduceOp::RedOpType op, uint64_t number)
    : InProgress(std::move(exchange), "shared_memory:all_reduce"),
      buffer_(std::move(buffer)),
      flat_(tensor.view({-1})),
      order_(tensor, world()),
      op_(op),
      number_(number),
      offset_(static_cast<const std::byte*>(tensor.const_data_ptr()) - buffer_->data(rank())) {
  publish_to_all(this->exchange(), bytes_of_object(offset_), number_);
}

bool ReduceInPlace::advance() {
  if (!reduced_) {
    check_offsets();
    reduce_own_part();
    publish_to_all(exchange(), {}, number_ + 1);
    reduced_ = true;
    return false;
  }
  for (int64_t r = 0; r < world(); ++r) await(r, number_ + 1, 0);
  release_all(number_ + 1);
  return true;
}

void ReduceInPlace::check_offsets() {
  for (int64_t r = 0; r < world(); ++r) {
    int64_t offset = 0;
    std::memcpy(&offset, await(r, number_, sizeof offset).data(), sizeof offset);
    if (offset != offset_) {
      throw std::runtime_error(
          text("rank {} reduces byte {} of shared memory, and not byte {}", r, offset, offset_));
    }
  }
  release_all(number_);
}

void ReduceInPlace::reduce_own_part() const {
  const int64_t first = flat_.numel() * rank() / world();
  const int64_t last = flat_.numel() * (rank() + 1) / world();
  at::parallel_for(first, last, kGrain, [&](int64_t begin, int64_t end) {
    reduce_all_in_order(parts_of(begin, end - begin), op_, order_, begin);
  });
}

/// `size` elements from element `at` of the tensor of each rank.
std::vector<at::Tensor> ReduceInPlace::parts_of(int64_t at, int64_t size) const {
  const int64_t offset = offset_ + at * static_cast<int64_t>(flat_.element_size());
  std::vector<at::Tensor> parts;
  for (int64_t r = 0; r < world(); ++r) {
    parts.push_back(at::from_blob(buffer_->data(r) + offset, {size}, flat_.options()));
  }
  return parts;
}

}  // namespace accel
