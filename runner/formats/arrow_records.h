// The one symbol of libaccel_arrow.so, which is built where Arrow's headers are.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runner/formats/records.h"

namespace accel {

enum class ArrowFormat { kParquet, kIpc };  ///< the latter as a file or as a stream

struct ArrowRequest {
  std::span<const std::byte> file;  ///< must outlive the reader
  ArrowFormat format = ArrowFormat::kParquet;
  std::string name;                 ///< for messages
  std::vector<std::string> wanted;  ///< fields; one may be wanted twice
};

class ArrowRecords : public RecordReader {
 public:
  /// The classes of a field that is a ClassLabel of Hugging Face's datasets, in the order of their
  /// numbers; empty for any other. Such a field reads as the names.
  virtual std::vector<std::string> class_names(const std::string& field) const = 0;
};

constexpr auto kArrowSymbol = "accel_arrow_records";
/// Puts the reader into `out`. Throws DataError for a field that is not there or holds neither
/// text, numbers nor truth values, and Error (data) for a file that is damaged, as next() does.
using ArrowFunction = void (*)(const ArrowRequest& request, std::unique_ptr<ArrowRecords>& out);

}  // namespace accel
