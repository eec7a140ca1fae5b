#include "runner/formats/csv.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace accel {
namespace {

constexpr size_t kMaxRecord = size_t{16} << 20;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

CsvReader::CsvReader(std::span<const std::byte> text, CsvDialect dialect, std::string name)
    : text_(reinterpret_cast<const char*>(text.data()), text.size()),
      dialect_(dialect),
      name_(std::move(name)) {
  if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
}

bool CsvReader::next(std::vector<std::string_view>& fields) {
  fields.clear();
  unquoted_.clear();
  while (skip_line_end()) {
  }
  record_line_ = line_;
  record_start_ = at_;
  if (at_ == text_.size()) return false;
  while (true) {
    const bool quoted = dialect_.quoting && at_ < text_.size() && text_[at_] == '"';
    fields.push_back(quoted ? quoted_field() : plain_field());
    if (at_ == text_.size() || text_[at_] != dialect_.delimiter) break;
    ++at_;
  }
  skip_line_end();
  if (field_count_ == 0) field_count_ = fields.size();
  if (fields.size() != field_count_) {
    fail("has " + std::to_string(fields.size()) + " fields where the first line has " +
         std::to_string(field_count_));
  }
  return true;
}

void CsvReader::fail(const std::string& problem, const std::string& hint) const {
  throw DataError(place() + ": " + problem, hint);
}

bool CsvReader::skip_line_end() {
  if (text_.substr(at_).starts_with("\r\n")) ++at_;
  if (at_ == text_.size() || text_[at_] != '\n') return false;
  ++at_;
  ++line_;
  return true;
}

bool CsvReader::end_of_field(size_t at) const {
  return at == text_.size() || text_[at] == dialect_.delimiter || text_[at] == '\n' ||
         text_.substr(at).starts_with("\r\n");
}

void CsvReader::check_length() const {
  if (at_ - record_start_ > kMaxRecord) {
    fail("a record of more than 16 MiB", dialect_.quoting ? "a quote may never be closed" : "");
  }
}

std::string_view CsvReader::plain_field() {
  const size_t first = at_;
  for (; !end_of_field(at_); ++at_) {
    if (dialect_.quoting && text_[at_] == '"') {
      fail("a quote inside a field that is not quoted",
           "'quoting: false' takes quotes as they are");
    }
    check_length();
  }
  return text_.substr(first, at_ - first);
}

std::string_view CsvReader::quoted_field() {
  const size_t first = ++at_;
  bool doubled = false;
  while (true) {
    if (at_ == text_.size()) {
      fail("a quote that is never closed", "'quoting: false' takes quotes as they are");
    }
    check_length();
    if (text_[at_] == '\n') ++line_;
    if (text_[at_++] != '"') continue;
    if (at_ == text_.size() || text_[at_] != '"') break;
    doubled = true;
    ++at_;
  }
  if (!end_of_field(at_)) fail("text behind a closing quote");
  const std::string_view raw = text_.substr(first, at_ - 1 - first);
  if (!doubled) return raw;
  std::string& field = unquoted_.emplace_back();
  for (size_t i = 0; i < raw.size(); ++i) {
    field += raw[i];
    if (raw[i] == '"') ++i;
  }
  return field;
}

}  // namespace accel
