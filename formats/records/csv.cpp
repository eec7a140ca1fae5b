#include "formats/records/csv.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace accel {
namespace {

constexpr size_t kMaxRecord = size_t{16} << 20;

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
  try {
    read_fields(fields);
  } catch (const DataError&) {
    skip_bad_record();
    throw;
  }
  skip_line_end();
  if (field_count_ == 0) field_count_ = fields.size();
  if (fields.size() != field_count_) {
    fail(text("has {} fields, the first line has {}", fields.size(), field_count_));
  }
  return true;
}

void CsvReader::read_fields(std::vector<std::string_view>& fields) {
  while (true) {
    while (dialect_.skip_initial_space && at_ < text_.size() && text_[at_] == ' ') ++at_;
    const bool quoted = dialect_.quoting && at_ < text_.size() && text_[at_] == '"';
    fields.push_back(quoted ? quoted_field() : plain_field());
    if (at_ == text_.size() || text_[at_] != dialect_.delimiter) return;
    ++at_;
  }
}

void CsvReader::skip_bad_record() {
  const bool has_end = bad_end_ > record_start_;
  const size_t from = has_end ? bad_end_ : record_start_;
  at_ = std::min(text_.find('\n', from), text_.size() - 1) + 1;
  line_ = (has_end ? line_ : record_line_) + 1;
  line_end_ = 0;
}

void CsvReader::fail(const std::string& problem, const std::string& hint) const {
  throw DataError(text("{}: {}", location(), problem), hint);
}

bool CsvReader::skip_line_end() {
  if (text_.substr(at_).starts_with("\r\n")) ++at_;
  if (at_ == text_.size() || text_[at_] != '\n') return false;
  ++at_;
  ++line_;
  return true;
}

void CsvReader::check_length() const {
  if (at_ - record_start_ > kMaxRecord) {
    fail("a record of more than 16 MiB", dialect_.quoting ? "check for an unclosed quote" : "");
  }
}

std::string_view CsvReader::rest_of_line() {
  if (line_end_ <= at_) line_end_ = std::min(text_.find('\n', at_), text_.size());
  std::string_view rest = text_.substr(at_, line_end_ - at_);
  if (line_end_ < text_.size() && rest.ends_with('\r')) rest.remove_suffix(1);
  return rest;
}

std::string_view CsvReader::plain_field() {
  std::string_view field = rest_of_line();
  field = field.substr(0, field.find(dialect_.delimiter));
  if (dialect_.quoting && field.find('"') != std::string_view::npos) {
    const bool spaced = field.starts_with(' ') && field[field.find_first_not_of(' ')] == '"';
    fail("a quote inside an unquoted field",
         spaced ? "'skip_initial_space: true' skips the spaces before a quote"
                : "'quoting: false' reads quotes as plain characters");
  }
  at_ += field.size();
  check_length();
  return field;
}

std::string_view CsvReader::quoted_field() {
  const size_t first = ++at_;
  bool doubled = false;
  while (true) {
    const size_t quote = text_.find('"', at_);
    at_ = std::min(quote, text_.size());
    check_length();
    if (quote == std::string_view::npos) {
      fail("an unclosed quote", "'quoting: false' reads quotes as plain characters");
    }
    ++at_;
    if (at_ == text_.size() || text_[at_] != '"') break;
    doubled = true;
    ++at_;
  }
  const std::string_view raw = text_.substr(first, at_ - 1 - first);
  line_ += std::count(raw.begin(), raw.end(), '\n');
  const std::string_view rest = rest_of_line();
  if (!rest.empty() && rest[0] != dialect_.delimiter) {
    bad_end_ = at_;
    fail("text after a closing quote");
  }
  if (!doubled) return raw;
  std::string& field = unquoted_.emplace_back();
  for (size_t i = 0; i < raw.size(); ++i) {
    field += raw[i];
    if (raw[i] == '"') ++i;
  }
  return field;
}

}  // namespace accel
