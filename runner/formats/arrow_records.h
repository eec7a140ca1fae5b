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

/// What a field is read as.
enum class ArrowField {
  kText,     ///< a text, a number, true or false, as text
  kBytes,    ///< bytes, or those in an Image of Hugging Face's datasets
  kNumbers,  ///< a list of whole numbers, as int64 one after another
};

struct ArrowRequest {
  std::span<const std::byte> file;  ///< must outlive the reader
  ArrowFormat format = ArrowFormat::kParquet;
  std::string name;                    ///< for messages
  std::vector<std::string> wanted;     ///< fields; one may be wanted twice
  std::vector<ArrowField> kinds = {};  ///< of `wanted`; empty: all are texts
  bool any_order = false;  ///< rows() and go_to() will be called; what the file holds stays in it
};

class ArrowRecords : public RecordReader {
 public:
  /// The classes of a field that is a ClassLabel of Hugging Face's datasets, in the order of their
  /// numbers; empty for any other. Such a field reads as the names.
  virtual std::vector<std::string> class_names(const std::string& field) const = 0;
  virtual int64_t rows() const = 0;
  /// next() gives that row, from 0. Throws DataError beyond the last one.
  virtual void go_to(int64_t row) = 0;
};

constexpr auto kArrowSymbol = "accel_arrow_records";
/// Puts the reader into `out`. Throws DataError for a field that is not there or is of another
/// kind, and Error (data) for a file that is damaged, as next() does.
using ArrowFunction = void (*)(const ArrowRequest& request, std::unique_ptr<ArrowRecords>& out);

}  // namespace accel
