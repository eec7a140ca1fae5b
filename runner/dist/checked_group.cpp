#include "runner/dist/checked_group.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/error.h"

namespace accel {
namespace {

/// Longer descriptions are cut.
constexpr int64_t kRowBytes = 256;

std::string describe(const std::string& operation, const char* what, const at::Tensor& tensor) {
  std::string text = operation + " '" + what + "'";
  if (!tensor.defined()) return text;
  text += std::string(" of ") + c10::toString(tensor.scalar_type()) + " [";
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(tensor.size(i));
  }
  return text + "]";
}

class CheckedGroup final : public Communicator {
 public:
  explicit CheckedGroup(std::unique_ptr<Communicator> group) : group_(std::move(group)) {}

  int64_t rank() const override { return group_->rank(); }
  int64_t world() const override { return group_->world(); }

  std::unique_ptr<Pending> start_all_reduce(at::Tensor tensor, ReduceOp op,
                                            const char* what) override {
    const char* name = op == ReduceOp::kSum ? "sum" : op == ReduceOp::kMax ? "maximum" : "minimum";
    check(describe(name, what, tensor));
    return group_->start_all_reduce(std::move(tensor), op, what);
  }
  void broadcast(at::Tensor tensor, int64_t root, const char* what) override {
    check(describe("broadcast of rank " + std::to_string(root), what, tensor));
    group_->broadcast(std::move(tensor), root, what);
  }
  at::Tensor all_gather(const at::Tensor& tensor, const char* what) override {
    check(describe("gather", what, tensor));
    return group_->all_gather(tensor, what);
  }
  void barrier(const char* what) override {
    check(describe("barrier", what, {}));
    group_->barrier(what);
  }

 private:
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
      list += (rank > 0 ? "; rank " : "rank ") + std::to_string(rank) + ": " + text;
    }
    if (same) return;
    throw Error(ExitCode::kRank, "the ranks do not mean the same collective: " + list,
                "a component of the recipe does not do the same on all ranks");
  }

  std::unique_ptr<Communicator> group_;
};

}  // namespace

std::unique_ptr<Communicator> make_checked(std::unique_ptr<Communicator> group) {
  return std::make_unique<CheckedGroup>(std::move(group));
}

}  // namespace accel
