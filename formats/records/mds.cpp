#include "formats/records/mds.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/base/whole_number.h"
#include "formats/strict_json.h"
#include "formats/untrusted.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr int kMaxIndexDepth = 16;
constexpr size_t kMaxShard = size_t{1} << 30;

/// The shortest text that reads back as the little-endian value.
template <class Value, class Bits>
std::string number_text(ByteSpan bytes) {
  const auto value = std::bit_cast<Value>(ByteReader(bytes, "a value").little<Bits>());
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

struct Encoding {
  const char* name;
  uint32_t size;  ///< 0: variable, a string
  std::string (*text)(ByteSpan bytes);
};

std::string plain_text(ByteSpan bytes) {
  return std::string(as_text(bytes));
}

constexpr Encoding kEncodings[] = {
    {"str", 0, &plain_text},
    {"str_int", 0, &plain_text},
    {"str_float", 0, &plain_text},
    {"str_decimal", 0, &plain_text},
    {"int", 8, &number_text<int64_t, int64_t>},
    {"int8", 1, &number_text<int8_t, int8_t>},
    {"int16", 2, &number_text<int16_t, int16_t>},
    {"int32", 4, &number_text<int32_t, int32_t>},
    {"int64", 8, &number_text<int64_t, int64_t>},
    {"uint8", 1, &number_text<uint8_t, uint8_t>},
    {"uint16", 2, &number_text<uint16_t, uint16_t>},
    {"uint32", 4, &number_text<uint32_t, uint32_t>},
    {"uint64", 8, &number_text<uint64_t, uint64_t>},
    {"float32", 4, &number_text<float, uint32_t>},
    {"float64", 8, &number_text<double, uint64_t>},
};

const Encoding* find_encoding(const std::string& name) {
  const auto* const found = std::find_if(std::begin(kEncodings), std::end(kEncodings),
                                         [&](const Encoding& known) { return name == known.name; });
  return found == std::end(kEncodings) ? nullptr : found;
}

template <class T>
T count_at(const json& entry, const char* key) {
  const auto count = whole_number<T>(entry.at(key));
  if (!count) throw FormatError(text("'{}' is not a count", key));
  return *count;
}

/// The name of a file beside the index.
std::string file_name(const json& entry) {
  const auto name = entry.at("basename").get<std::string>();
  if (!is_plain_file_name(name)) throw FormatError("a shard is outside the folder");
  return name;
}

std::map<std::string, std::string> hashes_of(const json& entry) {
  return entry.value("hashes", std::map<std::string, std::string>());
}

std::vector<MdsColumn> columns_of(const json& entry) {
  const auto names = entry.at("column_names").get<std::vector<std::string>>();
  const auto encodings = entry.at("column_encodings").get<std::vector<std::string>>();
  const json& sizes = entry.at("column_sizes");
  if (names.size() != encodings.size() || names.size() != sizes.size()) {
    throw FormatError("the columns of a shard do not match");
  }
  std::vector<MdsColumn> columns;
  for (size_t i = 0; i < names.size(); ++i) {
    MdsColumn column{names[i], encodings[i], {}};
    column.size = whole_number<uint32_t>(sizes.at(i));
    if (!column.size && !sizes.at(i).is_null()) {
      throw FormatError(text("the size of column '{}' is not a count", column.name));
    }
    const Encoding* const known = find_encoding(column.encoding);
    if (known && column.size.value_or(0) != known->size) {
      throw FormatError(text("the size of column '{}' does not match its encoding", column.name));
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

MdsShard shard_of(const json& entry) {
  if (entry.at("format") != "mds" || entry.at("version") != 2) {
    throw FormatError("a shard is not of format 'mds', version 2");
  }
  MdsShard shard;
  shard.columns = columns_of(entry);
  shard.file = file_name(entry.at("raw_data"));
  shard.bytes = count_at<size_t>(entry.at("raw_data"), "bytes");
  shard.hashes = hashes_of(entry.at("raw_data"));
  shard.samples = count_at<uint32_t>(entry, "samples");
  if (shard.bytes > kMaxShard) throw FormatError("a shard has more than 1 GiB");
  if (!entry.at("compression").is_null()) {
    const auto compression = entry.at("compression").get<std::string>();
    shard.compression = compression.substr(0, compression.find(':'));
    shard.packed_file = file_name(entry.at("zip_data"));
    shard.packed_hashes = hashes_of(entry.at("zip_data"));
  }
  return shard;
}

}  // namespace

std::vector<MdsShard> read_mds_index(std::string_view text, const std::string& name) try {
  MemoryBudget budget(text.size(), "the index");
  const json index = parse_strict_json(text, "the index", kMaxIndexDepth, budget);
  std::vector<MdsShard> shards;
  for (const json& shard : index.at("shards")) shards.push_back(shard_of(shard));
  return shards;
} catch (const json::exception&) {
  throw DataError(
      accel::text("'{}' is not an MDS index: a field is missing or has another type", name));
} catch (const FormatError& error) {
  throw DataError(accel::text("'{}' is not an MDS index: {}", name, error.what()));
}

MdsReader::MdsReader(std::span<const std::byte> bytes, const MdsShard& shard,
                     const std::vector<std::string>& wanted, std::string name)
    : bytes_(bytes), shard_(shard), name_(std::move(name)), values_(wanted.size()) {
  for (const std::string& column : wanted) {
    const auto found = std::find_if(shard_.columns.begin(), shard_.columns.end(),
                                    [&](const MdsColumn& known) { return known.name == column; });
    if (found == shard_.columns.end()) {
      std::vector<std::string> names;
      for (const MdsColumn& known : shard_.columns) names.push_back(known.name);
      throw DataError(accel::text("'{}' has no column '{}'", name_, column),
                      accel::text("it has the columns {}", quoted_list(names).substr(0, 300)));
    }
    if (!find_encoding(found->encoding)) {
      throw DataError(
          accel::text("'{}': column '{}' has the encoding '{}', a string or number wanted", name_,
                      column, found->encoding));
    }
    wanted_.push_back(static_cast<size_t>(found - shard_.columns.begin()));
  }
  const size_t head = sizeof(uint32_t) * 2;
  if (bytes_.size() != shard_.bytes || bytes_.size() < head ||
      ByteReader(bytes_, name_).little<uint32_t>() != shard_.samples) {
    throw Error(ExitCode::kData, text("'{}' does not match its entry in the index", name_));
  }
}

void MdsReader::fail(const std::string& problem) const {
  throw DataError(accel::text("{}: {}", location(), problem));
}

std::string MdsReader::location() const {
  return text("{} sample {}", name_, at_);
}

/// The bytes of the current sample.
std::span<const std::byte> MdsReader::sample_bytes() const {
  const size_t entry = sizeof(uint32_t) * (1 + static_cast<size_t>(at_));
  if (bytes_.size() < entry + 2 * sizeof(uint32_t)) fail("it is outside the shard");
  ByteReader offsets(bytes_.subspan(entry), name_);
  const auto begin = offsets.little<uint32_t>();
  const auto end = offsets.little<uint32_t>();
  if (begin > end || end > bytes_.size()) fail("it is outside the shard");
  return bytes_.subspan(begin, end - begin);
}

bool MdsReader::next(std::vector<std::string_view>& fields) {
  fields.clear();
  if (at_ + 1 >= shard_.samples) return false;
  ++at_;
  ByteReader sample(sample_bytes(), location());
  fields_.clear();
  try {
    std::vector<uint32_t> sizes;
    for (const MdsColumn& column : shard_.columns) {
      sizes.push_back(column.size ? *column.size : sample.little<uint32_t>());
    }
    for (const uint32_t size : sizes) fields_.push_back(sample.take(size));
  } catch (const FormatError& error) {
    throw DataError(error.what());
  }
  if (sample.left() > 0) fail(text("{} bytes after the last column", sample.left()));
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const MdsColumn& column = shard_.columns[wanted_[i]];
    values_[i] = find_encoding(column.encoding)->text(fields_[wanted_[i]]);
    if (!is_utf8(values_[i])) fail(text("column '{}' is not UTF-8", column.name));
  }
  fields.assign(values_.begin(), values_.end());
  return true;
}

}  // namespace accel
