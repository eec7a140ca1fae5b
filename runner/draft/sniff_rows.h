// Fields of JSON rows, from a sample spread over the file.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace accel {

/// Texts by how often they occur, up to a limit.
struct ValueCounts {
  std::map<std::string, int64_t> counts;
  bool complete = true;  ///< false: there are more values than the limit

  void add(const std::string& value);
};

/// A field of the rows that were looked at.
struct RowField {
  std::string name;
  int64_t rows = 0;  ///< in which it occurs and is not null
  int64_t texts = 0, integers = 0, numbers = 0, booleans = 0;  ///< integers are numbers too
  int64_t empty_texts = 0;
  int64_t objects = 0;
  int64_t lists_of_texts = 0, lists_of_integers = 0, lists_of_objects = 0, other_lists = 0;
  int64_t empty_lists = 0;  ///< among the other ones
  int64_t words = 0;        ///< in all texts
  int64_t largest = 0;      ///< of the integers in lists
  int64_t longest = 0;      ///< bytes of the longest text, or of all messages of a list
  std::string type;         ///< of a column, as Arrow names it; empty: a field of JSON rows
  bool is_unread = false;   ///< a column of bytes, or of a type that no dataset reads
  ValueCounts values;       ///< of texts, numbers and booleans
  ValueCounts items;        ///< of lists of texts or integers
  int64_t messages = 0;     ///< objects in lists
  std::map<std::string, ValueCounts> keys;  ///< of these objects, with their texts
  std::map<std::string, int64_t> key_rows;  ///< objects with a text under a key
  std::map<std::string, int64_t> all_keys;  ///< objects with any value under a key

  bool is(int64_t RowField::*kind) const { return rows > 0 && this->*kind == rows; }
};

/// Whether all values are lists of the kind, or empty ones.
inline bool has_lists_of(const RowField& field, int64_t RowField::*kind) {
  return field.*kind > 0 && field.*kind + field.empty_lists == field.rows;
}

struct SniffedRows {
  std::string path;
  bool columns = false;  ///< columns of a Parquet or Arrow file rather than JSON rows
  bool array = false;    ///< one JSON array rather than an object per line
  int64_t rows = 0;
  int64_t looked_at = 0;
  int64_t unreadable = 0;        ///< among those looked at
  std::string first_unreadable;  ///< "train.jsonl:3 is not JSON"
  /// Rows in which two lists have different lengths, by the names of their fields in order.
  std::map<std::pair<std::string, std::string>, int64_t> uneven_lists;
  std::vector<RowField> fields;  ///< in order of first occurrence

  const RowField* find(const std::string& name) const;
  /// The rows that can be read.
  int64_t readable() const { return looked_at - unreadable; }
};

/// Adds a text to the statistics of its field.
void add_text(RowField& field, const std::string& value);

/// Adds a list, as JSON, to the statistics of its field.
void add_list(RowField& field, const std::string& json);

/// Looks at up to a thousand rows, spread over the file. Throws DataError for a file without rows
/// and one whose first row is not a JSON object, or that continues after an array of rows.
SniffedRows sniff_rows(const std::string& path);

}  // namespace accel
