#include "formats/records/cifar.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr size_t kCifarRecord = 1 + 3 * 32 * 32;

}  // namespace

CifarRecords::CifarRecords(SharedBytes file, const std::string& name) : file_(std::move(file)) {
  const size_t bytes = file_.view.size();
  if (bytes == 0 || bytes % kCifarRecord != 0) {
    throw DataError(
        text("'{}' has {} bytes, not a multiple of the record size {}", name, bytes, kCifarRecord),
        "the file is truncated or damaged: copy it again");
  }
  for (int64_t i = 0; i < size(); ++i) {
    if (label(i) < kCifarClasses) continue;
    throw DataError(text("record {} of '{}' has the label {}, 0 to {} wanted", i, name, label(i),
                         kCifarClasses - 1),
                    "the file is damaged, or not the binary version of CIFAR-10");
  }
}

int64_t CifarRecords::size() const {
  return static_cast<int64_t>(file_.view.size() / kCifarRecord);
}

int64_t CifarRecords::label(int64_t index) const {
  return static_cast<int64_t>(file_.view[static_cast<size_t>(index) * kCifarRecord]);
}

Array CifarRecords::image(int64_t index) const {
  const size_t begin = static_cast<size_t>(index) * kCifarRecord + 1;
  return Array(DType::kU8, {3, 32, 32}, file_.view.subspan(begin).data(), file_.owner);
}

}  // namespace accel
