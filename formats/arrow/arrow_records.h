// Interface of libaccel_arrow.so, the reader of Parquet and Arrow files; loaded at first use.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/arrow/range_file.h"
#include "formats/records/records.h"

namespace accel {

enum class ArrowFormat { kParquet, kIpc };  ///< kIpc: file or stream

/// The type that a field is read as.
enum class ArrowField {
  kText,     ///< a string, number or boolean, as text
  kBytes,    ///< binary, or an Image of Hugging Face datasets
  kNumbers,  ///< a list of integers, as packed int64
  kList,     ///< a list of strings, numbers or booleans, as JSON
  kNames,    ///< the same, with the names of classes in place of their numbers
};

/// A column of a file.
struct ArrowColumn {
  enum class Value { kText, kInteger, kNumber, kBoolean, kBytes, kIntegers, kTexts, kOther };

  std::string name;
  std::string type;             ///< as Arrow names it, such as "list<item: int64>"
  Value value = Value::kOther;  ///< classes of Hugging Face datasets are texts; kTexts: in lists
};

struct ArrowRequest {
  std::span<const std::byte> file;  ///< must outlive the reader
  ArrowFormat format = ArrowFormat::kParquet;
  std::string name;                    ///< for messages
  std::vector<std::string> wanted;     ///< fields; duplicates are allowed
  std::vector<ArrowField> kinds = {};  ///< of `wanted`; empty: all kText
  bool keep_nulls = false;             ///< a null is a view without data instead of an error
  bool any_order = false;              ///< random access: rows() and seek(); keeps all batches
  const RangeFile* ranges = nullptr;   ///< in place of `file`: Parquet; must outlive the reader
};

class ArrowRecords : public RecordReader {
 public:
  /// Class names of a ClassLabel field of Hugging Face datasets, or of a list of them that is read
  /// as kNames, by number; empty for other fields. The values of such a field are read as names.
  virtual std::vector<std::string> class_names(const std::string& field) const = 0;
  /// All columns of the file.
  virtual std::vector<ArrowColumn> columns() const = 0;
  virtual int64_t rows() const = 0;
  /// The next call of next() reads this row, from 0. Throws DataError beyond the last row.
  virtual void seek(int64_t row) = 0;
};

constexpr auto kArrowSymbol = "accel_arrow_records";
/// Stores the reader in `out`. Throws DataError for a missing field and for a field of another
/// type, and, as next(), Error (kData) for a damaged file.
using ArrowFunction = void (*)(const ArrowRequest& request, std::unique_ptr<ArrowRecords>& out);

}  // namespace accel
