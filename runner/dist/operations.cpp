#include "runner/dist/operations.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cstring>

namespace accel {
namespace {

int64_t largest(Communicator& group, int64_t here, const char* what) {
  const at::Tensor size = at::full({1}, here, at::kLong);
  group.all_reduce(size, ReduceOp::kMax, what);
  return size.item().toLong();
}

/// One row of `bytes` bytes that begins with how many of them count.
at::Tensor row_of(const std::string& text, int64_t bytes) {
  const at::Tensor row = at::empty({static_cast<int64_t>(sizeof(int64_t)) + bytes}, at::kByte);
  auto* data = static_cast<char*>(row.mutable_data_ptr());
  const auto size = static_cast<int64_t>(text.size());
  std::memset(data, 0, row.nbytes());
  std::memcpy(data, &size, sizeof size);
  std::memcpy(data + sizeof size, text.data(), text.size());
  return row;
}

std::string text_of(const at::Tensor& row) {
  const auto* data = static_cast<const char*>(row.const_data_ptr());
  int64_t size = 0;
  std::memcpy(&size, data, sizeof size);
  return {data + sizeof size, static_cast<size_t>(size)};
}

/// What one row looks like, for the ranks that have none: its type and sizes.
struct RowKind {
  at::ScalarType type;
  std::vector<int64_t> sizes;
};

RowKind agree_on_row(Communicator& group, const std::vector<RowsOfPart>& own) {
  constexpr int64_t kMostSizes = 32;
  std::vector<int64_t> facts(kMostSizes + 2, -1);
  if (!own.empty()) {
    const at::Tensor& rows = own.front().rows;
    facts[0] = static_cast<int64_t>(rows.scalar_type());
    facts[1] = rows.dim() - 1;
    std::copy(rows.sizes().begin() + 1, rows.sizes().end(), facts.begin() + 2);
  }
  group.all_reduce(at::from_blob(facts.data(), {kMostSizes + 2}, at::kLong), ReduceOp::kMax,
                   "kind of rows");
  return {static_cast<at::ScalarType>(facts[0]), {facts.begin() + 2, facts.begin() + 2 + facts[1]}};
}

}  // namespace

at::Tensor gather(Communicator& group, const at::Tensor& tensor) {
  const at::Tensor rows = tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor;
  return group.all_gather(rows.contiguous(), "gather").flatten(0, 1);
}

std::vector<std::string> gather_texts(Communicator& group, const std::string& text) {
  const int64_t bytes = largest(group, static_cast<int64_t>(text.size()), "size of texts");
  const at::Tensor all = group.all_gather(row_of(text, bytes), "texts");
  std::vector<std::string> texts;
  for (int64_t rank = 0; rank < group.world(); ++rank)
    texts.push_back(text_of(all.select(0, rank)));
  return texts;
}

std::string broadcast_text(Communicator& group, const std::string& text) {
  const int64_t here = group.is_main() ? static_cast<int64_t>(text.size()) : 0;
  const int64_t bytes = largest(group, here, "size of a text");
  const at::Tensor row = row_of(group.is_main() ? text : "", bytes);
  group.broadcast(row, 0, "text");
  return text_of(row);
}

at::Tensor gather_parts(Communicator& group, const std::vector<RowsOfPart>& own, int64_t parts) {
  std::vector<double> counts(static_cast<size_t>(parts));
  for (const RowsOfPart& item : own) {
    counts[static_cast<size_t>(item.part)] = static_cast<double>(item.rows.size(0));
  }
  sum_over_ranks(group, counts, "numbers of rows");
  std::vector<int64_t> first = {0};
  for (const double count : counts) first.push_back(first.back() + static_cast<int64_t>(count));
  const RowKind kind = agree_on_row(group, own);
  std::vector<int64_t> sizes = {first.back()};
  sizes.insert(sizes.end(), kind.sizes.begin(), kind.sizes.end());
  const at::Tensor out = at::full(sizes, 0, at::TensorOptions(kind.type));
  for (const RowsOfPart& item : own) {
    out.narrow(0, first[static_cast<size_t>(item.part)], item.rows.size(0)).copy_(item.rows);
  }
  // Every byte is one rank's and zero elsewhere, so that any type comes out exact.
  const auto bytes = static_cast<int64_t>(out.nbytes());
  group.all_reduce(at::from_blob(out.mutable_data_ptr(), {bytes}, at::kByte), ReduceOp::kSum,
                   "rows");
  return out;
}

at::Tensor reduce(Communicator& group, const at::Tensor& tensor, Reduce how) {
  const at::Tensor out = tensor.contiguous().clone();
  group.all_reduce(out, how == Reduce::kMax ? ReduceOp::kMax : ReduceOp::kSum, "reduce");
  return how == Reduce::kMean ? out.div(static_cast<double>(group.world())) : out;
}

at::Tensor pad_across_processes(Communicator& group, const at::Tensor& tensor, int64_t dim,
                                double pad_index, bool pad_first) {
  if (dim >= tensor.dim() || dim < -tensor.dim()) return tensor;
  const int64_t longest = largest(group, tensor.size(dim), "size to pad to");
  if (longest == tensor.size(dim)) return tensor;
  std::vector<int64_t> shape = tensor.sizes().vec();
  shape[static_cast<size_t>(dim < 0 ? dim + tensor.dim() : dim)] = longest;
  const at::Tensor out = at::full(shape, pad_index, tensor.options());
  const int64_t first = pad_first ? longest - tensor.size(dim) : 0;
  out.narrow(dim, first, tensor.size(dim)).copy_(tensor);
  return out;
}

bool any_rank(Communicator& group, bool here, const char* what) {
  return largest(group, here ? 1 : 0, what) > 0;
}

void sum_over_ranks(Communicator& group, std::span<double> numbers, const char* what) {
  if (numbers.empty() || group.world() == 1) return;
  group.all_reduce(
      at::from_blob(numbers.data(), {static_cast<int64_t>(numbers.size())}, at::kDouble),
      ReduceOp::kSum, what);
}

}  // namespace accel
