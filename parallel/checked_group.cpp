#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/array.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/c10d_group.h"

namespace accel {
namespace {

/// Longer descriptions are truncated.
constexpr int64_t kRowBytes = 256;

std::string describe(const std::string& operation, const char* purpose, const at::Tensor& tensor) {
  std::string text = operation + " '" + purpose + "'";
  if (!tensor.defined()) return text;
  text += std::string(" of ") + c10::toString(tensor.scalar_type()) + " [";
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(tensor.size(i));
  }
  return text + "]";
}

class CheckedGroup final : public Communicator {
 public:
  explicit CheckedGroup(std::unique_ptr<Communicator> group)
      : Communicator(group->rank(), group->world()), group_(std::move(group)) {}

  /// Concerns two ranks alone: not checked.
  std::unique_ptr<Pending> start_messages(const std::vector<Message>& messages,
                                          const char* purpose) override {
    return group_->start_messages(messages, purpose);
  }

  std::unique_ptr<Pending> start_all_reduce(at::Tensor tensor, ReduceOp op,
                                            const char* purpose) override {
    check(describe(name_of(op), purpose, tensor));
    return group_->start_all_reduce(std::move(tensor), op, purpose);
  }
  bool shares_memory() const override { return group_->shares_memory(); }
  at::Tensor shared_zeros(int64_t bytes, const char* purpose) override {
    check(describe(text("{} bytes", bytes), purpose, {}));
    return group_->shared_zeros(bytes, purpose);
  }
  std::unique_ptr<Pending> start_all_gather(at::Tensor out, const at::Tensor& in,
                                            const char* purpose) override {
    check(describe("gather", purpose, in));
    return group_->start_all_gather(std::move(out), in, purpose);
  }
  std::unique_ptr<Pending> start_reduce_scatter(at::Tensor out, const at::Tensor& in, ReduceOp op,
                                                const char* purpose) override {
    check(describe(std::string("scattered ") + name_of(op), purpose, in));
    return group_->start_reduce_scatter(std::move(out), in, op, purpose);
  }
  /// Also verifies that the ranks agree about the rows of each pair.
  std::unique_ptr<Pending> start_all_to_all(at::Tensor out, const at::Tensor& in,
                                            const std::vector<int64_t>& out_rows,
                                            const std::vector<int64_t>& in_rows,
                                            const char* purpose) override {
    check(describe("exchange of rows", purpose, in.dim() > 0 ? in.narrow(0, 0, 0) : in));
    check_rows(out_rows, in_rows, purpose);
    return group_->start_all_to_all(std::move(out), in, out_rows, in_rows, purpose);
  }
  void broadcast(at::Tensor tensor, int64_t root, const char* purpose) override {
    check(describe("broadcast of rank " + std::to_string(root), purpose, tensor));
    group_->broadcast(std::move(tensor), root, purpose);
  }
  void barrier(const char* purpose) override {
    check(describe("barrier", purpose, {}));
    group_->barrier(purpose);
  }
  std::unique_ptr<Communicator> split(const Partition& partition) override {
    std::string text = "split into";
    for (const std::vector<int64_t>& ranks : partition) text += " " + to_string(ranks);
    check(text);
    return std::make_unique<CheckedGroup>(group_->split(partition));
  }

 private:
  static const char* name_of(ReduceOp op) {
    return op == ReduceOp::kSum ? "sum" : op == ReduceOp::kMax ? "maximum" : "minimum";
  }

  /// Every rank compares all pairs, so that all of them throw.
  void check_rows(const std::vector<int64_t>& out_rows, const std::vector<int64_t>& in_rows,
                  const char* purpose) {
    const auto table = [&](const std::vector<int64_t>& rows) {
      return group_->all_gather(at::tensor(at::ArrayRef<int64_t>(rows)), "check of a collective");
    };
    const at::Tensor sent = table(in_rows), expected = table(out_rows);
    const auto rows_of = [&](const at::Tensor& all, int64_t rank, int64_t peer) {
      return all.const_data_ptr<int64_t>()[rank * world() + peer];
    };
    for (int64_t to = 0; to < world(); ++to) {
      for (int64_t from = 0; from < world(); ++from) {
        if (rows_of(expected, to, from) == rows_of(sent, from, to)) continue;
        throw Error(ExitCode::kRank,
                    text("rank {} expects {} rows of rank {} in '{}', which sends {}", to,
                         rows_of(expected, to, from), from, purpose, rows_of(sent, from, to)),
                    "a component of the recipe behaves differently on some ranks");
      }
    }
  }

  void check(const std::string& mine) {
    const at::Tensor row = at::empty({kRowBytes}, at::kByte);
    auto* bytes = static_cast<char*>(row.mutable_data_ptr());
    std::memset(bytes, 0, kRowBytes);
    std::memcpy(bytes, mine.data(), std::min<size_t>(mine.size(), kRowBytes - 1));
    const at::Tensor all = group_->all_gather(row, "check of a collective");
    std::string list;
    bool same = true;
    for (int64_t rank = 0; rank < world(); ++rank) {
      const std::string text = static_cast<const char*>(all.select(0, rank).const_data_ptr());
      same = same && text == static_cast<const char*>(all.const_data_ptr());
      list += accel::text("{}rank {}: {}", rank > 0 ? "; " : "", rank, text);
    }
    if (same) return;
    throw Error(ExitCode::kRank, text("ranks call different collectives: {}", list),
                "a component of the recipe behaves differently on some ranks");
  }

  std::unique_ptr<Communicator> group_;
};

}  // namespace

std::unique_ptr<Communicator> make_checked(std::unique_ptr<Communicator> group) {
  return std::make_unique<CheckedGroup>(std::move(group));
}

}  // namespace accel
