#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "parallel/backends/in_progress.h"
#include "parallel/backends/ring_reduction.h"
#include "parallel/backends/shared_buffer.h"
#include "parallel/c10d_group.h"

namespace accel {
namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/// An all-reduce of more bytes by more than two ranks is a reduce-scatter and an all-gather.
constexpr size_t kOnePhase = size_t{32} << 10;
/// Tensors of more bytes in shared buffers are reduced there: copies of smaller ones cost less than
/// another wait.
constexpr size_t kInPlace = size_t{256} << 10;

Bytes bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

class AllReduce final : public InProgress {
 public:
  AllReduce(std::shared_ptr<BlockExchange> exchange, const at::Tensor& tensor,
            c10d::ReduceOp::RedOpType op, uint64_t number)
      : InProgress(std::move(exchange), "shared_memory:all_reduce"),
        flat_(tensor.view({-1})),
        order_(tensor, world()),
        op_(op),
        number_(number),
        divided_(world() > 2 && tensor.nbytes() > kOnePhase) {}

 protected:
  bool is_ready() const override { return all_have(reduced_ ? number_ + 1 : number_); }
  bool is_last_phase() const override { return reduced_ || !divided_; }

  bool advance() override {
    if (!divided_) {
      reduce_in_order(flat_, await_all(number_, flat_, 0, flat_.numel(), flat_.nbytes()), op_,
                      order_, 0);
      release_all(number_);
      return true;
    }
    if (reduced_) {
      take_parts();
      return true;
    }
    reduce_own_part();
    reduced_ = true;
    return false;
  }

 private:
  int64_t start_of(int64_t r) const { return flat_.numel() * r / world(); }
  at::Tensor part(int64_t r) const {
    return flat_.narrow(0, start_of(r), start_of(r + 1) - start_of(r));
  }

  void reduce_own_part() {
    at::Tensor own = part(rank());
    std::byte* block = exchange().allocate(own.nbytes());
    reduce_in_order(at::from_blob(block, own.sizes(), own.options()),
                    await_all(number_, flat_, start_of(rank()), own.numel(), flat_.nbytes()), op_,
                    order_, start_of(rank()));
    release_all(number_);
    exchange().publish(BlockExchange::kToAll, number_ + 1, world());
  }

  void take_parts() {
    for (int64_t r = 0; r < world(); ++r) {
      const Bytes to = bytes_of(part(r));
      copy(to.data(), await(r, number_ + 1, to.size()));
    }
    release_all(number_ + 1);
  }

  at::Tensor flat_;
  RingOrder order_;
  c10d::ReduceOp::RedOpType op_;
  uint64_t number_;  ///< of the tensors; the parts of the result have the next one
  bool divided_;     ///< each rank reduces a part
  bool reduced_ = false;
};

class ReduceScatter final : public InProgress {
 public:
  ReduceScatter(std::shared_ptr<BlockExchange> exchange, at::Tensor out, const at::Tensor& in,
                c10d::ReduceOp::RedOpType op, uint64_t number)
      : InProgress(std::move(exchange), "shared_memory:reduce_scatter"),
        out_(std::move(out)),
        order_(in, world()),
        op_(op),
        number_(number) {}

 protected:
  bool is_ready() const override { return all_have(number_); }
  bool advance() override {
    const int64_t size = out_.numel();
    reduce_in_order(
        out_,
        await_all(number_, out_, rank() * size, size, out_.nbytes() * static_cast<size_t>(world())),
        op_, order_, rank() * size);
    release_all(number_);
    return true;
  }

 private:
  at::Tensor out_;
  RingOrder order_;
  c10d::ReduceOp::RedOpType op_;
  uint64_t number_;
};

class AllGather final : public InProgress {
 public:
  AllGather(std::shared_ptr<BlockExchange> exchange, at::Tensor out, uint64_t number)
      : InProgress(std::move(exchange), "shared_memory:all_gather"),
        out_(std::move(out)),
        number_(number) {}

 protected:
  bool is_ready() const override { return all_have(number_); }
  bool advance() override {
    const size_t part = out_.nbytes() / static_cast<size_t>(world());
    std::byte* to = bytes_of(out_).data();
    for (int64_t r = 0; r < world(); ++r, to += part) copy(to, await(r, number_, part));
    release_all(number_);
    return true;
  }

 private:
  at::Tensor out_;
  uint64_t number_;
};

/// The tensor of one rank for one or all others.
class Receive final : public InProgress {
 public:
  struct Source {
    int64_t rank;
    int64_t lane;
    uint64_t number;
  };

  Receive(std::shared_ptr<BlockExchange> exchange, at::Tensor out, const Source& source,
          const char* name)
      : InProgress(std::move(exchange), name), out_(std::move(out)), source_(source) {}

 protected:
  bool is_ready() const override {
    return exchange().has(source_.rank, source_.lane, source_.number);
  }
  bool advance() override {
    copy(bytes_of(out_).data(), await(source_.rank, source_.number, out_.nbytes(), source_.lane));
    exchange().release(source_.rank, source_.lane, source_.number);
    return true;
  }

 private:
  at::Tensor out_;
  Source source_;
};

/// A message or broadcast of this rank.
class SentWork final : public InProgress {
 public:
  explicit SentWork(std::shared_ptr<BlockExchange> exchange)
      : InProgress(std::move(exchange), "shared_memory:send") {}

 protected:
  bool is_ready() const override { return true; }
  bool advance() override { return true; }
};

/// Blocks start with a table: where the rows for each rank start, in bytes, and where they end.
class AllToAll final : public InProgress {
 public:
  AllToAll(std::shared_ptr<BlockExchange> exchange, at::Tensor out, std::vector<int64_t> out_bytes,
           uint64_t number)
      : InProgress(std::move(exchange), "shared_memory:all_to_all"),
        out_(std::move(out)),
        out_bytes_(std::move(out_bytes)),
        number_(number) {}

 protected:
  bool is_ready() const override { return all_have(number_); }
  bool advance() override {
    std::byte* to = bytes_of(out_).data();
    for (int64_t r = 0; r < world(); ++r) {
      const Bytes block = exchange().await(r, BlockExchange::kToAll, number_);
      int64_t range[2];
      std::memcpy(range, block.data() + static_cast<size_t>(rank()) * sizeof(int64_t),
                  sizeof range);
      const int64_t expected = out_bytes_[static_cast<size_t>(r)];
      if (range[1] - range[0] != expected) {
        throw std::runtime_error(
            text("rank {} sends {} bytes, and not {}", r, range[1] - range[0], expected));
      }
      copy(to, block.subspan(static_cast<size_t>(range[0]), static_cast<size_t>(expected)));
      to += expected;
    }
    release_all(number_);
    return true;
  }

 private:
  at::Tensor out_;
  std::vector<int64_t> out_bytes_;
  uint64_t number_;
};

class SharedMemoryBackend final : public c10d::Backend {
 public:
  explicit SharedMemoryBackend(std::shared_ptr<BlockExchange> exchange)
      : c10d::Backend(static_cast<int>(exchange->rank()), static_cast<int>(exchange->world())),
        exchange_(std::move(exchange)),
        sent_(static_cast<size_t>(exchange_->world())),
        received_(static_cast<size_t>(exchange_->world())) {}

  const std::string getBackendName() const override { return "shared_memory"; }

  bool supportsTensorAlloc(c10::DeviceIndex /*device*/) override { return true; }

  /// A collective: zeros, 1-d, kByte, which allreduce() of large parts reduces in place.
  at::Tensor allocateTensor(long size, at::TensorOptions /*options*/) override {
    const auto buffer =
        std::make_shared<SharedBuffer>(*exchange_, next(2), static_cast<size_t>(size));
    std::erase_if(buffers_, [](const auto& weak) { return weak.expired(); });
    buffers_.push_back(buffer);
    return at::from_blob(
        buffer->data(getRank()), {size}, [buffer](void*) {}, at::kByte);
  }

  WorkPtr allreduce(std::vector<at::Tensor>& tensors,
                    const c10d::AllreduceOptions& options) override {
    const at::Tensor& tensor = tensors.at(0);
    const uint64_t number = next(2);
    if (std::shared_ptr<SharedBuffer> buffer = buffer_of(tensor)) {
      return begin(c10::make_intrusive<ReduceInPlace>(exchange_, std::move(buffer), tensor,
                                                      options.reduceOp.op_, number));
    }
    publish_to_all(*exchange_, bytes_of(tensor), number);
    return begin(c10::make_intrusive<AllReduce>(exchange_, tensor, options.reduceOp.op_, number));
  }

  WorkPtr _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                               const c10d::ReduceScatterOptions& options) override {
    const uint64_t number = next();
    publish_to_all(*exchange_, bytes_of(in), number);
    return begin(
        c10::make_intrusive<ReduceScatter>(exchange_, out, in, options.reduceOp.op_, number));
  }

  WorkPtr _allgather_base(at::Tensor& out, at::Tensor& in,
                          const c10d::AllgatherOptions& /*options*/) override {
    const uint64_t number = next();
    publish_to_all(*exchange_, bytes_of(in), number);
    return begin(c10::make_intrusive<AllGather>(exchange_, out, number));
  }

  WorkPtr broadcast(std::vector<at::Tensor>& tensors,
                    const c10d::BroadcastOptions& options) override {
    const uint64_t number = next();
    const at::Tensor& tensor = tensors.at(0);
    if (options.rootRank != getRank()) {
      const Receive::Source source = {options.rootRank, BlockExchange::kToAll, number};
      return begin(
          c10::make_intrusive<Receive>(exchange_, tensor, source, "shared_memory:broadcast"));
    }
    publish(*exchange_, bytes_of(tensor), {BlockExchange::kToAll, number, getSize() - 1});
    return c10::make_intrusive<SentWork>(exchange_);
  }

  WorkPtr alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<int64_t>& out_rows,
                        std::vector<int64_t>& in_rows,
                        const c10d::AllToAllOptions& /*options*/) override {
    const uint64_t number = next();
    const auto ranks = static_cast<size_t>(getSize());
    std::vector<int64_t> table = {static_cast<int64_t>((ranks + 1) * sizeof(int64_t))};
    for (const int64_t bytes : row_bytes(in, in_rows)) table.push_back(table.back() + bytes);
    std::byte* block = exchange_->allocate(static_cast<size_t>(table.back()));
    std::memcpy(block, table.data(), table.size() * sizeof(int64_t));
    copy(block + table.front(), bytes_of(in));
    exchange_->publish(BlockExchange::kToAll, number, getSize());
    return begin(c10::make_intrusive<AllToAll>(exchange_, out, row_bytes(out, out_rows), number));
  }

  WorkPtr barrier(const c10d::BarrierOptions& /*options*/) override {
    const uint64_t number = next();
    publish_to_all(*exchange_, {}, number);
    return begin(c10::make_intrusive<AllGather>(exchange_, at::empty({0}, at::kByte), number));
  }

  WorkPtr send(std::vector<at::Tensor>& tensors, int to, int /*tag*/) override {
    publish(*exchange_, bytes_of(tensors.at(0)),
            {BlockExchange::lane_to(to), sent_[static_cast<size_t>(to)]++, 1});
    return c10::make_intrusive<SentWork>(exchange_);
  }

  WorkPtr recv(std::vector<at::Tensor>& tensors, int from, int /*tag*/) override {
    const Receive::Source source = {from, BlockExchange::lane_to(getRank()),
                                    received_[static_cast<size_t>(from)]++};
    return begin(
        c10::make_intrusive<Receive>(exchange_, tensors.at(0), source, "shared_memory:receive"));
  }

 private:
  uint64_t next(uint64_t count = 1) { return std::exchange(number_, number_ + count); }

  /// The buffer of a tensor that is reduced in place; null for others.
  std::shared_ptr<SharedBuffer> buffer_of(const at::Tensor& tensor) const {
    if (tensor.nbytes() <= kInPlace) return nullptr;
    for (const std::weak_ptr<SharedBuffer>& weak : buffers_) {
      if (auto buffer = weak.lock(); buffer && buffer->contains(bytes_of(tensor))) return buffer;
    }
    return nullptr;
  }

  /// Bytes of the rows for each rank; no rows: equal parts.
  std::vector<int64_t> row_bytes(const at::Tensor& tensor, const std::vector<int64_t>& rows) const {
    const auto all = static_cast<int64_t>(tensor.nbytes());
    if (rows.empty()) return std::vector<int64_t>(static_cast<size_t>(getSize()), all / getSize());
    const int64_t row = tensor.size(0) > 0 ? all / tensor.size(0) : 0;
    std::vector<int64_t> bytes;
    for (const int64_t count : rows) bytes.push_back(count * row);
    return bytes;
  }

  /// Completes what is ready of earlier collectives.
  WorkPtr begin(c10::intrusive_ptr<InProgress> work) {
    std::erase_if(started_, [](const c10::weak_intrusive_ptr<InProgress>& weak) {
      const c10::intrusive_ptr<InProgress> earlier = weak.lock();
      if (earlier) earlier->progress();
      return !earlier || earlier->isCompleted();
    });
    started_.emplace_back(work);
    return work;
  }

  std::shared_ptr<BlockExchange> exchange_;
  uint64_t number_ = 0;             ///< of the next collective
  std::vector<uint64_t> sent_;      ///< messages to each rank
  std::vector<uint64_t> received_;  ///< messages from each rank
  std::vector<c10::weak_intrusive_ptr<InProgress>> started_;
  std::vector<std::weak_ptr<SharedBuffer>> buffers_;
};

/// What every rank says, by rank.
std::vector<std::string> gather(c10d::Store& store, const std::string& key,
                                const GroupOptions& options, const std::string& own) {
  std::vector<std::string> keys, all;
  for (int64_t r = 0; r < options.world; ++r) keys.push_back(key + "/" + std::to_string(r));
  store.set(keys[static_cast<size_t>(options.rank)], own);
  for (const std::vector<uint8_t>& value : store.multiGet(keys)) {
    all.emplace_back(value.begin(), value.end());
  }
  return all;
}

}  // namespace

SharedMemoryAttempt make_shared_memory_backend(const StorePtr& store, const GroupOptions& options) {
  const std::vector<std::string> machines = gather(*store, "machine", options, options.machine);
  if (std::ranges::any_of(machines, [&](const auto& one) { return one != options.machine; })) {
    return {nullptr};
  }
  const std::chrono::milliseconds timeout(static_cast<int64_t>(options.timeout * 1e3));
  std::shared_ptr<BlockExchange> exchange;
  std::string own_problem, name;
  const auto attempt = [&](const auto& part) {
    try {
      if (own_problem.empty()) part();
    } catch (const std::runtime_error& error) {
      own_problem = text("rank {}: {}", options.global_rank, error.what());
    }
  };
  attempt([&] {
    exchange = std::make_shared<BlockExchange>(options.rank, options.world, timeout);
    name = exchange->name();
  });
  const std::vector<std::string> names = gather(*store, "name", options, name);
  attempt([&] { exchange->connect(names); });
  for (const std::string& problem : gather(*store, "problem", options, own_problem)) {
    if (!problem.empty()) return {nullptr, problem};
  }
  return {c10::make_intrusive<SharedMemoryBackend>(std::move(exchange))};
}

}  // namespace accel
