#include "models/placement/streamed_unit.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <set>

#include "models/placement/weight_file.h"

namespace accel {
namespace {

constexpr auto kPieceBytes = static_cast<int64_t>(kReadPiece);

}  // namespace

void set_memory(const at::Tensor& tensor, void* memory) {
  tensor.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      c10::DataPtr(memory, tensor.device()));
}

int64_t StreamedUnit::bytes() const {
  int64_t sum = 0;
  for (const MappedRange& range : ranges) sum += range.block_bytes();
  return sum;
}

MovableUnit::MovableUnit(StreamedUnit unit) : unit_(std::move(unit)), bytes_(unit_.bytes()) {
  const c10::NoGradGuard no_grad;
  std::set<const void*> seen;  // tied weights are one tensor
  int64_t begin = 0;
  for (const MappedRange& range : unit_.ranges) {
    range.expect_random_access();  // of a tied head, by row
    const int64_t end = range.offset + static_cast<int64_t>(range.bytes.size());
    for (int64_t at = 0; at < range.block_bytes(); at += kPieceBytes) {
      const int64_t offset = range.block_offset() + at;
      pieces_.push_back({range.file.get(), offset, begin + at,
                         std::min(kPieceBytes, range.block_bytes() - at),
                         std::min(kPieceBytes, end - offset)});
    }
    for (const at::Tensor& tensor : unit_.weights) {
      const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
      const auto within = data - range.bytes.data();
      if (within < 0 || within >= std::ssize(range.bytes)) continue;
      if (!seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
      at::Tensor mapped = tensor.detach();
      tensor.set_data(at::from_blob(const_cast<std::byte*>(data), tensor.sizes(),
                                    tensor.options().requires_grad(false)));
      const int64_t in_block = range.offset - range.block_offset();
      weights_.push_back({tensor, std::move(mapped), begin + in_block + within});
    }
    begin += range.block_bytes();
  }
}

MovableUnit::~MovableUnit() {
  for (const Weight& item : weights_) item.tensor.set_data(item.mapped);
}

void MovableUnit::move_to(std::byte* region) const {
  for (const Weight& item : weights_) set_memory(item.tensor, region + item.at);
}

void MovableUnit::move_back() const {
  for (const Weight& item : weights_) {
    set_memory(item.tensor, const_cast<void*>(item.mapped.const_data_ptr()));
  }
}

void MovableUnit::drop() const {
  for (const MappedRange& range : unit_.ranges) range.drop();
}

}  // namespace accel
