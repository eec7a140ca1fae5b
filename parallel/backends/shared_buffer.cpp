#include "parallel/backends/shared_buffer.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>

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

/// Of a SharedSegment, which needs it.
constexpr size_t kHeaderBytes = 64;

/// What a rank tells the others of its memory.
struct SegmentText {
  uint64_t bytes;
  std::array<char, 64> name;
};

/// Elements that are reduced at once, to stay in the cache until all ranks have them.
constexpr int64_t kChunk = int64_t{1} << 15;

void publish_to_ranks(BlockExchange& exchange, uint64_t number, const void* data, size_t bytes) {
  std::byte* block = exchange.allocate(bytes);
  if (bytes > 0) std::memcpy(block, data, bytes);
  exchange.publish(BlockExchange::kToAll, number, exchange.world());
}

}  // namespace

SharedBuffer::SharedBuffer(BlockExchange& exchange, uint64_t number, size_t bytes)
    : rank_(exchange.rank()), bytes_(bytes), segments_(static_cast<size_t>(exchange.world())) {
  std::unique_ptr<SharedSegment>& own = segments_[static_cast<size_t>(rank_)];
  own = std::make_unique<SharedSegment>(kHeaderBytes);
  own->resize(bytes);
  SegmentText told = {bytes, {}};
  own->name().copy(told.name.data(), told.name.size() - 1);
  publish_to_ranks(exchange, number, &told, sizeof told);
  for (int64_t r = 0; r < exchange.world(); ++r) {
    const Bytes found = exchange.await(r, BlockExchange::kToAll, number);
    std::memcpy(&told, found.data(), std::min(found.size(), sizeof told));
    if (found.size() != sizeof told || told.bytes != bytes) {
      throw std::runtime_error(text("rank {} shares {} bytes, and not {}", r, told.bytes, bytes));
    }
    std::unique_ptr<SharedSegment>& segment = segments_[static_cast<size_t>(r)];
    if (!segment) {
      segment = std::make_unique<SharedSegment>(kHeaderBytes, std::string(told.name.data()));
    }
    exchange.release(r, BlockExchange::kToAll, number);
    data_.push_back(segment->data(0, bytes));
  }
  // All have mapped this rank's memory when they have published once more.
  publish_to_ranks(exchange, number + 1, nullptr, 0);
  for (int64_t r = 0; r < exchange.world(); ++r) {
    exchange.await(r, BlockExchange::kToAll, number + 1);
    exchange.release(r, BlockExchange::kToAll, number + 1);
  }
  for (const std::unique_ptr<SharedSegment>& segment : segments_) segment->close();
}

bool SharedBuffer::holds(std::span<const std::byte> bytes) const {
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
      place_(static_cast<const std::byte*>(tensor.const_data_ptr()) - buffer_->data(rank())) {
  publish_to_ranks(this->exchange(), number_, &place_, sizeof place_);
}

bool ReduceInPlace::advance() {
  if (!reduced_) {
    check_places();
    reduce_own_part();
    publish_to_ranks(exchange(), number_ + 1, nullptr, 0);
    reduced_ = true;
    return false;
  }
  for (int64_t r = 0; r < world(); ++r) await(r, number_ + 1, 0);
  release_all(number_ + 1);
  return true;
}

void ReduceInPlace::check_places() {
  for (int64_t r = 0; r < world(); ++r) {
    int64_t place = 0;
    std::memcpy(&place, await(r, number_, sizeof place).data(), sizeof place);
    if (place != place_) {
      throw std::runtime_error(
          text("rank {} reduces byte {} of shared memory, and not byte {}", r, place, place_));
    }
  }
  release_all(number_);
}

void ReduceInPlace::reduce_own_part() const {
  const int64_t first = flat_.numel() * rank() / world();
  const int64_t last = flat_.numel() * (rank() + 1) / world();
  at::parallel_for(first, last, kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kChunk) {
      const std::vector<at::Tensor> parts = parts_of(at, std::min(kChunk, end - at));
      const at::Tensor sum = at::empty_like(parts[0]);
      reduce_in_order(sum, parts, op_, order_, at);
      for (const at::Tensor& part : parts) {
        std::memcpy(part.mutable_data_ptr(), sum.const_data_ptr(), sum.nbytes());
      }
    }
  });
}

/// `size` elements from element `at` of the tensor of each rank.
std::vector<at::Tensor> ReduceInPlace::parts_of(int64_t at, int64_t size) const {
  const int64_t place = place_ + at * static_cast<int64_t>(flat_.element_size());
  std::vector<at::Tensor> parts;
  for (int64_t r = 0; r < world(); ++r) {
    parts.push_back(at::from_blob(buffer_->data(r) + place, {size}, flat_.options()));
  }
  return parts;
}

}  // namespace accel
