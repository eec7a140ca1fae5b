// Collectives of shared memory in progress.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "core/base/text.h"
#include "parallel/shared_memory/block_exchange.h"

namespace accel {

using Bytes = std::span<std::byte>;

/// By all threads of the rank, if it is large.
inline void copy(std::byte* to, Bytes from) {
  constexpr int64_t kGrain = int64_t{1} << 20;
  at::parallel_for(0, static_cast<int64_t>(from.size()), kGrain, [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from.data() + begin, static_cast<size_t>(end - begin));
  });
}

/// A block of a BlockExchange.
struct BlockPlace {
  int64_t lane;
  uint64_t number;
  int64_t readers;
};

/// Copies `data` to a block of this rank and publishes it.
inline void publish(BlockExchange& exchange, Bytes data, const BlockPlace& block) {
  copy(exchange.allocate(data.size()), data);
  exchange.publish(block.lane, block.number, block.readers);
}
inline void publish_to_all(BlockExchange& exchange, Bytes data, uint64_t number) {
  publish(exchange, data, {BlockExchange::kToAll, number, exchange.world()});
}

/// A collective whose part of this rank is published.
class InProgress : public c10d::Work {
 public:
  InProgress(std::shared_ptr<BlockExchange> exchange, const char* name)
      : exchange_(std::move(exchange)), name_(name) {}

  /// Waits for the other ranks and completes the result.
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    while (!done_) proceed();
    return true;
  }
  bool isCompleted() override { return done_; }
  bool isSuccess() const override { return done_; }

  /// Does what needs no wait, which frees memory of the other ranks early.
  void progress() {
    while (!done_ && is_ready()) proceed();
  }

 protected:
  virtual bool is_ready() const = 0;
  virtual bool is_last_phase() const { return true; }
  /// Does the next phase. True when it was the last one.
  virtual bool advance() = 0;

  BlockExchange& exchange() const { return *exchange_; }
  int64_t rank() const { return exchange_->rank(); }
  int64_t world() const { return exchange_->world(); }

  bool all_have(uint64_t number) const {
    for (int64_t r = 0; r < world(); ++r) {
      if (!exchange_->has(r, BlockExchange::kToAll, number)) return false;
    }
    return true;
  }

  /// The block of `bytes` that a rank has published for all.
  Bytes await(int64_t from, uint64_t number, size_t bytes, int64_t lane = BlockExchange::kToAll) {
    const Bytes found = exchange_->await(from, lane, number);
    if (found.size() != bytes) {
      throw std::runtime_error(text("rank {} has {} bytes, and not {}", from, found.size(), bytes));
    }
    return found;
  }

  /// The `part`-th range of elements of the blocks of all ranks, by rank.
  std::vector<at::Tensor> await_all(uint64_t number, const at::Tensor& like, int64_t start,
                                    int64_t size, size_t bytes) {
    std::vector<at::Tensor> parts;
    for (int64_t r = 0; r < world(); ++r) {
      std::byte* data = await(r, number, bytes).data();
      parts.push_back(at::from_blob(data + start * static_cast<int64_t>(like.element_size()),
                                    {size}, like.options().requires_grad(false)));
    }
    return parts;
  }

  void release_all(uint64_t number) {
    for (int64_t r = 0; r < world(); ++r) exchange_->release(r, BlockExchange::kToAll, number);
  }

 private:
  void proceed() {
    RECORD_FUNCTION(is_last_phase() ? name_ : "part of a collective", {});
    done_ = advance();
  }

  std::shared_ptr<BlockExchange> exchange_;
  const char* name_;
  bool done_ = false;
};

}  // namespace accel
