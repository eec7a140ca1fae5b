#include "runner/formats/cifar.h"

#include <utility>

#include "core/error.h"

namespace accel {
namespace {

constexpr size_t kCifarRecord = 1 + 3 * 32 * 32;

}  // namespace

CifarRecords::CifarRecords(SharedBytes file, const std::string& name) : file_(std::move(file)) {
  const size_t bytes = file_.view.size();
  if (bytes == 0 || bytes % kCifarRecord != 0) {
    throw DataError("'" + name + "' holds " + std::to_string(bytes) +
                        " bytes, which is no whole number of records of " +
                        std::to_string(kCifarRecord),
                    "the file is cut short or damaged: copy it again");
  }
  for (int64_t i = 0; i < size(); ++i) {
    if (label(i) < kCifarClasses) continue;
    throw DataError("record " + std::to_string(i) + " of '" + name + "' has the label " +
                        std::to_string(label(i)) + ", which is not below " +
                        std::to_string(kCifarClasses),
                    "the file is damaged, or is not of CIFAR-10's binary version");
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
