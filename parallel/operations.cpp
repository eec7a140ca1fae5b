#include "parallel/operations.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <string>

namespace accel {
namespace {

int64_t largest(Communicator& group, int64_t here, const char* purpose) {
  const at::Tensor size = at::full({1}, here, at::kLong);
  group.all_reduce(size, ReduceOp::kMax, purpose);
  return size.item().toLong();
}

/// One row of `bytes` bytes, which starts with the length of the text.
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

/// Type and sizes of a row, for ranks without rows.
struct RowKind {
  at::ScalarType type;
  std::vector<int64_t> sizes;
};

RowKind agree_on_row(Communicator& group, const std::vector<MicroBatchRows>& own) {
  constexpr int64_t kMostSizes = 32;
  std::vector<int64_t> layout(kMostSizes + 2, -1);
  if (!own.empty()) {
    const at::Tensor& rows = own.front().rows;
    layout[0] = static_cast<int64_t>(rows.scalar_type());
    layout[1] = rows.dim() - 1;
    std::copy(rows.sizes().begin() + 1, rows.sizes().end(), layout.begin() + 2);
  }
  group.all_reduce(at::from_blob(layout.data(), {kMostSizes + 2}, at::kLong), ReduceOp::kMax,
                   "kind of rows");
  return {static_cast<at::ScalarType>(layout[0]),
          {layout.begin() + 2, layout.begin() + 2 + layout[1]}};
}

/// The numbers, and names, types and shapes of the tensors in the order of bytes_of().
std::string header_of(const StateDict& state) {
  std::ostringstream text;
  text << state.numbers.size() << '\n';
  for (const auto& [name, value] : state.numbers)
    text << name << '\n' << std::hexfloat << value << '\n';
  text << state.tensors.size() << '\n';
  for (const auto& [name, tensor] : state.tensors) {
    text << name << '\n' << static_cast<int>(tensor.scalar_type()) << ' ' << tensor.dim();
    for (const int64_t size : tensor.sizes()) text << ' ' << size;
    text << '\n';
  }
  return text.str();
}

at::Tensor bytes_of(const StateDict& state) {
  std::vector<at::Tensor> bytes = {at::empty({0}, at::kByte)};
  for (const auto& [name, tensor] : state.tensors) {
    bytes.push_back(tensor.detach().cpu().contiguous().view({-1}).view(at::kByte));
  }
  return at::cat(bytes);
}

/// The state of a header, with uninitialized tensors.
StateDict state_of(const std::string& header) {
  std::istringstream text(header);
  StateDict state;
  std::string name, number;
  const auto count = [&] {
    std::getline(text, number);
    return std::stoll(number);
  };
  for (int64_t left = count(); left > 0; --left) {
    std::getline(text, name);
    std::getline(text, number);
    state.numbers[name] = std::stod(number);
  }
  for (int64_t left = count(); left > 0; --left) {
    std::getline(text, name);
    std::getline(text, number);
    std::istringstream line(number);
    int type = 0;
    int64_t dims = 0;
    line >> type >> dims;
    std::vector<int64_t> shape(static_cast<size_t>(dims));
    for (int64_t& size : shape) line >> size;
    state.tensors[name] = at::empty(shape, static_cast<at::ScalarType>(type));
  }
  return state;
}

/// Copies the result of bytes_of() into the tensors of `state`, which have the same shapes.
void copy_bytes(const StateDict& state, const at::Tensor& bytes) {
  int64_t at = 0;
  for (const auto& [name, tensor] : state.tensors) {
    const auto size = static_cast<int64_t>(tensor.nbytes());
    tensor.view({-1}).view(at::kByte).copy_(bytes.narrow(0, at, size));
    at += size;
  }
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

at::Tensor gather_micro_batches(Communicator& group, const std::vector<MicroBatchRows>& own,
                                int64_t num_micro_batches) {
  std::vector<double> counts(static_cast<size_t>(num_micro_batches));
  for (const MicroBatchRows& item : own) {
    counts[static_cast<size_t>(item.micro_batch_index)] = static_cast<double>(item.rows.size(0));
  }
  sum_over_ranks(group, counts, "numbers of rows");
  std::vector<int64_t> first = {0};
  for (const double count : counts) first.push_back(first.back() + static_cast<int64_t>(count));
  const RowKind kind = agree_on_row(group, own);
  std::vector<int64_t> sizes = {first.back()};
  sizes.insert(sizes.end(), kind.sizes.begin(), kind.sizes.end());
  const at::Tensor out = at::full(sizes, 0, at::TensorOptions(kind.type));
  for (const MicroBatchRows& item : own) {
    out.narrow(0, first[static_cast<size_t>(item.micro_batch_index)], item.rows.size(0))
        .copy_(item.rows);
  }
  // Each byte is nonzero on one rank only, so that the sum is exact for any type.
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

bool any_rank(Communicator& group, bool here, const char* purpose) {
  return largest(group, here ? 1 : 0, purpose) > 0;
}

void sum_over_ranks(Communicator& group, std::span<double> numbers, const char* purpose) {
  if (numbers.empty() || group.world() == 1) return;
  group.all_reduce(
      at::from_blob(numbers.data(), {static_cast<int64_t>(numbers.size())}, at::kDouble),
      ReduceOp::kSum, purpose);
}

at::Tensor GroupRanks::gather(const at::Tensor& tensor) {
  return accel::gather(group_, tensor);
}

at::Tensor GroupRanks::reduce(const at::Tensor& tensor, Reduce how) {
  return accel::reduce(group_, tensor, how);
}

at::Tensor GroupRanks::pad_across_processes(const at::Tensor& tensor, const RankPadding& padding) {
  return accel::pad_across_processes(group_, tensor, padding.dim, padding.value, padding.first);
}

at::Tensor GroupRanks::broadcast(const at::Tensor& tensor) {
  at::Tensor out = tensor.detach().clone(at::MemoryFormat::Contiguous);
  group_.broadcast(out, 0, "broadcast");
  return out;
}

bool GroupRanks::any(bool here) {
  return any_rank(group_, here, "whether a trigger is set");
}

void GroupRanks::wait_for_everyone() {
  group_.barrier("wait_for_everyone");
}

std::vector<StateDict> gather_states(Communicator& group, const StateDict& own) {
  const std::vector<std::string> headers = gather_texts(group, header_of(own));
  std::vector<StateDict> all;
  for (int64_t rank = 0; rank < group.world(); ++rank) {
    StateDict theirs = state_of(headers[static_cast<size_t>(rank)]);
    const at::Tensor bytes = bytes_of(rank == group.rank() ? own : theirs);
    if (bytes.numel() > 0) group.broadcast(bytes, rank, "state of a rank");
    if (!group.is_main()) continue;
    copy_bytes(theirs, bytes);
    all.push_back(std::move(theirs));
  }
  return all;
}

}  // namespace accel
