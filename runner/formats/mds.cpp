#include "runner/formats/mds.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/utf8.h"
#include "core/whole_number.h"
#include "runner/formats/bytes.h"
#include "runner/formats/plain_file_name.h"
#include "runner/formats/strict_json.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 16;
constexpr size_t kMaxShard = size_t{1} << 30;

/// Unpacks a little-endian value and writes the shortest text that reads back as it.
template <class Value, class Bits>
std::string number_text(ByteSpan bytes) {
  const auto value = std::bit_cast<Value>(ByteReader(bytes, "a value").little<Bits>());
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

struct Encoding {
  const char* name;
  uint32_t size;  ///< 0: it varies, and is text
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

/// What `told` counts under `key`.
template <class T>
T count_of(const json& told, const char* key) {
  const auto count = whole_number<T>(told.at(key));
  if (!count) throw FormatError(std::string("'") + key + "' is no count");
  return *count;
}

/// The name of a file in the folder of the index.
std::string file_name(const json& told) {
  const auto name = told.at("basename").get<std::string>();
  if (!is_plain_file_name(name)) throw FormatError("a shard is not in its folder");
  return name;
}

std::map<std::string, std::string> hashes_of(const json& told) {
  return told.value("hashes", std::map<std::string, std::string>());
}

std::vector<MdsColumn> columns_of(const json& told) {
  const auto names = told.at("column_names").get<std::vector<std::string>>();
  const auto encodings = told.at("column_encodings").get<std::vector<std::string>>();
  const json& sizes = told.at("column_sizes");
  if (names.size() != encodings.size() || names.size() != sizes.size()) {
    throw FormatError("a shard's columns do not agree");
  }
  std::vector<MdsColumn> columns;
  for (size_t i = 0; i < names.size(); ++i) {
    MdsColumn column{names[i], encodings[i], {}};
    column.size = whole_number<uint32_t>(sizes.at(i));
    if (!column.size && !sizes.at(i).is_null()) {
      throw FormatError("column '" + column.name + "' is of a size that is no count");
    }
    const Encoding* const known = find_encoding(column.encoding);
    if (known && column.size.value_or(0) != known->size) {
      throw FormatError("column '" + column.name + "' is not of the size of its encoding");
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

MdsShard shard_of(const json& told) {
  if (told.at("format") != "mds" || told.at("version") != 2) {
    throw FormatError("a shard is not of the format 'mds', version 2");
  }
  MdsShard shard;
  shard.columns = columns_of(told);
  shard.file = file_name(told.at("raw_data"));
  shard.bytes = count_of<size_t>(told.at("raw_data"), "bytes");
  shard.hashes = hashes_of(told.at("raw_data"));
  shard.samples = count_of<uint32_t>(told, "samples");
  if (shard.bytes > kMaxShard) throw FormatError("a shard has more than 1 GiB");
  if (!told.at("compression").is_null()) {
    const auto compression = told.at("compression").get<std::string>();
    shard.compression = compression.substr(0, compression.find(':'));
    shard.packed_file = file_name(told.at("zip_data"));
    shard.packed_hashes = hashes_of(told.at("zip_data"));
  }
  return shard;
}

}  // namespace

std::vector<MdsShard> read_mds_index(std::string_view text, const std::string& name) try {
  MemoryBudget budget(text.size(), "the index");
  const json index = parse_strict_json(text, "the index", kMaxDepth, budget);
  std::vector<MdsShard> shards;
  for (const json& shard : index.at("shards")) shards.push_back(shard_of(shard));
  return shards;
} catch (const json::exception&) {
  throw DataError("'" + name + "' is no index of MDS shards: something in it is missing");
} catch (const FormatError& error) {
  throw DataError("'" + name + "' is no index of MDS shards: " + error.what());
}

MdsReader::MdsReader(std::span<const std::byte> bytes, const MdsShard& shard,
                     const std::vector<std::string>& wanted, std::string name)
    : bytes_(bytes), shard_(shard), name_(std::move(name)), values_(wanted.size()) {
  for (const std::string& column : wanted) {
    const auto found = std::find_if(shard_.columns.begin(), shard_.columns.end(),
                                    [&](const MdsColumn& known) { return known.name == column; });
    if (found == shard_.columns.end()) {
      std::string names;
      for (const MdsColumn& known : shard_.columns) {
        names.append(names.empty() ? "'" : ", '").append(known.name).append("'");
      }
      throw DataError("'" + name_ + "' has no column '" + column + "'",
                      "it has the columns " + names.substr(0, 300));
    }
    if (!find_encoding(found->encoding)) {
      throw DataError("'" + name_ + "': column '" + column + "' is of the encoding '" +
                      found->encoding + "', not a text or a number");
    }
    wanted_.push_back(static_cast<size_t>(found - shard_.columns.begin()));
  }
  const size_t head = sizeof(uint32_t) * 2;
  if (bytes_.size() != shard_.bytes || bytes_.size() < head ||
      ByteReader(bytes_, name_).little<uint32_t>() != shard_.samples) {
    throw Error(ExitCode::kData, "'" + name_ + "' is not the shard that the index tells of");
  }
}

void MdsReader::fail(const std::string& problem) const {
  throw DataError(place() + ": " + problem);
}

std::string MdsReader::place() const {
  return name_ + " sample " + std::to_string(at_);
}

/// Of the sample that the reader is at.
std::span<const std::byte> MdsReader::sample_bytes() const {
  const size_t entry = sizeof(uint32_t) * (1 + static_cast<size_t>(at_));
  if (bytes_.size() < entry + 2 * sizeof(uint32_t)) fail("the shard is too short for it");
  ByteReader offsets(bytes_.subspan(entry), name_);
  const auto begin = offsets.little<uint32_t>();
  const auto end = offsets.little<uint32_t>();
  if (begin > end || end > bytes_.size()) fail("it does not lie in the shard");
  return bytes_.subspan(begin, end - begin);
}

bool MdsReader::next(std::vector<std::string_view>& fields) {
  fields.clear();
  if (at_ + 1 >= shard_.samples) return false;
  ++at_;
  ByteReader sample(sample_bytes(), place());
  parts_.clear();
  try {
    std::vector<uint32_t> sizes;
    for (const MdsColumn& column : shard_.columns) {
      sizes.push_back(column.size ? *column.size : sample.little<uint32_t>());
    }
    for (const uint32_t size : sizes) parts_.push_back(sample.take(size));
  } catch (const FormatError& error) {
    throw DataError(error.what());
  }
  if (sample.left() > 0) fail(std::to_string(sample.left()) + " bytes belong to no column");
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const MdsColumn& column = shard_.columns[wanted_[i]];
    values_[i] = find_encoding(column.encoding)->text(parts_[wanted_[i]]);
    if (!is_utf8(values_[i])) fail("column '" + column.name + "' is no UTF-8");
  }
  fields.assign(values_.begin(), values_.end());
  return true;
}

}  // namespace accel
