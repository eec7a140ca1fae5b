// Communicator: the collectives of a group of ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace accel {

enum class ReduceOp { kSum, kMax, kMin };

/// A collective in progress.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Waits for its end. Call once. Throws as the collective does.
  virtual void wait() = 0;
};

/// A message from or to another rank.
struct Message {
  enum class Kind { kSend, kReceive };
  Kind kind;
  at::Tensor tensor;  ///< contiguous; the receiver's has the sender's type and shape
  int64_t peer;       ///< the other rank
};

/// Messages between pairs of ranks of a group. Those of a pair arrive in the order in which they
/// are sent.
class PointToPoint {
 public:
  virtual ~PointToPoint() = default;
  /// Starts all messages at once, so that ranks may send to each other without a deadlock.
  virtual std::unique_ptr<Pending> start_messages(const std::vector<Message>& messages,
                                                  const char* purpose) = 0;
};

/// A partition of a group's ranks.
using Partition = std::vector<std::vector<int64_t>>;

/// A group of ranks. Every rank calls the same collectives in the same order, with contiguous
/// tensors of the same type and, where not stated otherwise, the same shape; `purpose` names the
/// purpose in error messages and must outlive the call. For one thread per rank. Do not access the
/// tensors of a collective that is started before wait() of its result returns. Collectives throw
/// Error: kRank when another rank is lost, kTimeout when one does not respond.
class Communicator : public PointToPoint {
 public:
  Communicator(int64_t rank, int64_t world) : rank_(rank), world_(world) {}

  int64_t rank() const { return rank_; }
  int64_t world() const { return world_; }
  bool is_main() const { return rank_ == 0; }

  /// Reduces `tensor` over all ranks in place, to the same bits on each.
  virtual std::unique_ptr<Pending> start_all_reduce(at::Tensor tensor, ReduceOp op,
                                                    const char* purpose) = 0;
  /// Whether the ranks have shared_zeros() in memory that all of them map.
  virtual bool shares_memory() const { return false; }
  /// A collective: zeros for tensors on the CPU that are all-reduced in every step, [bytes], kByte.
  /// Ranks that share memory reduce them there, without copies.
  virtual at::Tensor shared_zeros(int64_t bytes, const char* purpose);
  /// Concatenates the tensors of all ranks, by rank, along dimension 0 of `out`, which has `world`
  /// times the elements of `in`.
  virtual std::unique_ptr<Pending> start_all_gather(at::Tensor out, const at::Tensor& in,
                                                    const char* purpose) = 0;
  /// Reduces `in` over all ranks and leaves this rank's share, the rank-th of `world` equal parts
  /// of its elements, in `out`. `in` may be overwritten.
  virtual std::unique_ptr<Pending> start_reduce_scatter(at::Tensor out, const at::Tensor& in,
                                                        ReduceOp op, const char* purpose) = 0;
  /// Sends rows of `in` to every rank, `in_rows[r]` to rank r, and receives `out_rows[r]` rows from
  /// rank r into `out`, both in the order of ranks. The numbers of rows add up to dimension 0.
  virtual std::unique_ptr<Pending> start_all_to_all(at::Tensor out, const at::Tensor& in,
                                                    const std::vector<int64_t>& out_rows,
                                                    const std::vector<int64_t>& in_rows,
                                                    const char* purpose) = 0;
  /// Copies rank `root`'s tensor into `tensor`.
  virtual void broadcast(at::Tensor tensor, int64_t root, const char* purpose) = 0;
  /// Waits until every rank has called it.
  virtual void barrier(const char* purpose) = 0;
  /// This rank's group of the partition; its ranks are numbered in the order listed. All ranks call
  /// it with the same partition. This group outlives the result.
  virtual std::unique_ptr<Communicator> split(const Partition& partition) = 0;

  void all_reduce(const at::Tensor& tensor, ReduceOp op, const char* purpose) {
    start_all_reduce(tensor, op, purpose)->wait();
  }
  /// The tensors of all ranks, [world, ...], by rank.
  at::Tensor all_gather(const at::Tensor& tensor, const char* purpose);
  void send(const at::Tensor& tensor, int64_t to, const char* purpose) {
    start_messages({{Message::Kind::kSend, tensor, to}}, purpose)->wait();
  }
  void receive(const at::Tensor& tensor, int64_t from, const char* purpose) {
    start_messages({{Message::Kind::kReceive, tensor, from}}, purpose)->wait();
  }

 protected:
  /// The group of a partition with this rank. Throws std::logic_error unless exactly one has it.
  const std::vector<int64_t>& own_group(const Partition& partition) const;

 private:
  int64_t rank_;
  int64_t world_;
};

/// The ranks of a group within the world.
struct GroupShape {
  int64_t ranks = 1;
  int64_t stride = 1;  ///< between the numbers of two neighbours

  auto operator<=>(const GroupShape&) const = default;
};

/// What a rank sends in a group for one purpose.
struct TrafficKey {
  GroupShape group;
  std::string purpose;

  auto operator<=>(const TrafficKey&) const = default;
};

struct Sent {
  /// In algorithms of least traffic: of each all-gather and reduce-scatter (world - 1) / world of
  /// the whole tensor, of each all-reduce twice as much.
  int64_t bytes = 0;
  int64_t calls = 0;  ///< collectives, or messages to one rank
};

using Traffic = std::map<TrafficKey, Sent>;

/// Rank 0 of a group without other ranks: collectives complete at once and gather this rank's
/// tensor from every rank. For estimates of a run of several ranks.
class FakeGroup : public Communicator {
 public:
  /// Adds what the group and its parts send to `traffic`, which outlives them; null: to nothing.
  explicit FakeGroup(int64_t world, Traffic* traffic = nullptr)
      : FakeGroup(GroupShape{world, 1}, traffic) {}

  std::unique_ptr<Pending> start_messages(const std::vector<Message>& messages,
                                          const char* purpose) override;
  std::unique_ptr<Pending> start_all_reduce(at::Tensor tensor, ReduceOp op,
                                            const char* purpose) override;
  std::unique_ptr<Pending> start_all_gather(at::Tensor out, const at::Tensor& in,
                                            const char* purpose) override;
  std::unique_ptr<Pending> start_reduce_scatter(at::Tensor out, const at::Tensor& in, ReduceOp op,
                                                const char* purpose) override;
  std::unique_ptr<Pending> start_all_to_all(at::Tensor out, const at::Tensor& in,
                                            const std::vector<int64_t>& out_rows,
                                            const std::vector<int64_t>& in_rows,
                                            const char* purpose) override;
  void broadcast(at::Tensor tensor, int64_t root, const char* purpose) override;
  void barrier(const char*) override {}
  std::unique_ptr<Communicator> split(const Partition& partition) override;

 private:
  FakeGroup(GroupShape shape, Traffic* traffic)
      : Communicator(0, shape.ranks), shape_(shape), traffic_(traffic) {}

  /// `parts` of the group's share of `bytes`.
  void count(const char* purpose, int64_t bytes, int64_t parts) const;

  GroupShape shape_;
  Traffic* traffic_;
};

/// The group of a single process.
class SingleProcess final : public FakeGroup {
 public:
  SingleProcess() : FakeGroup(1) {}
};

/// Called on the rank's thread; cheap and noexcept in effect. This base class does nothing.
class RankWatch {
 public:
  virtual ~RankWatch() = default;
  /// Optimizer step `step`, counted from 1, begins.
  virtual void step(int64_t /*step*/) noexcept {}
  /// The rank's phase begins: "data", "training", "evaluation", "saving".
  virtual void phase(const char* /*name*/) noexcept {}
  /// Collective `sequence`, counted from 1 the same on all ranks, begins.
  virtual void entered(const char* /*purpose*/, int64_t /*sequence*/) noexcept {}
  /// The collective has ended.
  virtual void left() noexcept {}
};

}  // namespace accel
