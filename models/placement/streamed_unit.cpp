#include "models/placement/streamed_unit.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "kernels/memory/deferred_init.h"
#include "models/placement/weight_file.h"

namespace accel {
namespace {

constexpr auto kPieceBytes = static_cast<int64_t>(kReadPiece);
constexpr int64_t kElementAlignment = 64;
/// Of a weight: F32 [16] and [256], and a state in JSON.
constexpr int64_t kTableBytes = 2048;

int64_t rounded_up(int64_t bytes, int64_t to) {
  return (bytes + to - 1) / to * to;
}

/// In the region.
int64_t converted_bytes(const at::Tensor& tensor) {
  return rounded_up(static_cast<int64_t>(tensor.nbytes()), kElementAlignment);
}

}  // namespace

int64_t table_bytes_between(const std::vector<Parameter>& weights) {
  return kTableBytes * std::count_if(weights.begin(), weights.end(), [](const Parameter& item) {
           return item.name.ends_with(".weight.absmax");
         });
}

void set_memory(const at::Tensor& tensor, void* memory) {
  tensor.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      c10::DataPtr(memory, tensor.device()));
}

int64_t StreamedUnit::bytes() const {
  int64_t sum = 0;
  for (const MappedRange& range : ranges) sum += range.block_bytes();
  for (const at::Tensor& tensor : converted) sum += converted_bytes(tensor);
  return rounded_up(sum, WeightFile::kBlock);
}

void MovableUnit::Piece::read_to(std::byte* region) const {
  if (file) return file->read(offset, {region + at, static_cast<size_t>(bytes)}, needed);
  const c10::NoGradGuard no_grad;
  copy_rows(*converted, 0,
            at::from_blob(region + at, converted->sizes(),
                          at::TensorOptions().dtype(converted->scalar_type())));
}

MovableUnit::MovableUnit(StreamedUnit unit) : unit_(std::move(unit)), bytes_(unit_.bytes()) {
  const c10::NoGradGuard no_grad;
  int64_t begin = 0;
  for (const MappedRange& range : unit_.ranges) {
    range.expect_random_access();  // of a tied head, by row
    add_range(range, begin);
    begin += range.block_bytes();
  }
  sources_.reserve(unit_.converted.size());  // pieces point to them
  for (const at::Tensor& tensor : unit_.converted) begin = add_converted(tensor, begin);
}

void MovableUnit::add_range(const MappedRange& range, int64_t begin) {
  const int64_t end = range.offset + static_cast<int64_t>(range.bytes.size());
  for (int64_t at = 0; at < range.block_bytes(); at += kPieceBytes) {
    const int64_t offset = range.block_offset() + at;
    pieces_.push_back({.file = range.file.get(),
                       .offset = offset,
                       .at = begin + at,
                       .bytes = std::min(kPieceBytes, range.block_bytes() - at),
                       .needed = std::min(kPieceBytes, end - offset)});
  }
  const auto is_there = [&](const at::Tensor& tensor) {  // tied weights are one tensor
    return std::any_of(weights_.begin(), weights_.end(), [&](const Weight& item) {
      return item.tensor.unsafeGetTensorImpl() == tensor.unsafeGetTensorImpl();
    });
  };
  for (const at::Tensor& tensor : unit_.weights) {
    const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
    const auto within = data - range.bytes.data();
    if (within < 0 || within >= std::ssize(range.bytes) || is_there(tensor)) continue;
    at::Tensor mapped = tensor.detach();
    auto* const idle = const_cast<std::byte*>(data);
    tensor.set_data(at::from_blob(idle, tensor.sizes(), tensor.options().requires_grad(false)));
    const int64_t in_block = range.offset - range.block_offset();
    weights_.push_back({tensor, std::move(mapped), begin + in_block + within, idle});
  }
}

int64_t MovableUnit::add_converted(const at::Tensor& tensor, int64_t at) {
  sources_.push_back(tensor.detach());
  std::byte any{};  // the tensor has its elements where the unit is
  tensor.set_data(at::from_blob(&any, tensor.sizes(), tensor.options().requires_grad(false)));
  set_memory(tensor, nullptr);
  pieces_.push_back({.converted = &sources_.back(),
                     .at = at,
                     .bytes = static_cast<int64_t>(tensor.nbytes()),
                     .needed = static_cast<int64_t>(tensor.nbytes())});
  weights_.push_back({tensor, sources_.back(), at, nullptr});
  return at + converted_bytes(tensor);
}

MovableUnit::~MovableUnit() {
  for (const Weight& item : weights_) item.tensor.set_data(item.mapped);
}

void MovableUnit::move_to(std::byte* region) const {
  for (const Weight& item : weights_) set_memory(item.tensor, region + item.at);
}

void MovableUnit::move_back() const {
  for (const Weight& item : weights_) set_memory(item.tensor, item.idle);
}

void MovableUnit::drop() const {
  for (const MappedRange& range : unit_.ranges) range.drop();
}

}  // namespace accel
