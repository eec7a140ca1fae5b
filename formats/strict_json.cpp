#include "formats/strict_json.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/base/text.h"

namespace accel {
namespace {

using nlohmann::json;

// Memory per value: an element of a growing vector and of the list that nlohmann builds to destroy
// all values; per container or string beside that; and per node of an object's map.
constexpr size_t kValueBytes = 64;
constexpr size_t kContainerBytes = 64;
constexpr size_t kTextBytes = 48;
constexpr size_t kKeyBytes = 128;

/// Builds the tree from SAX events: nlohmann's parser with a callback is quadratic in siblings.
class StrictJson final : public nlohmann::json_sax<json> {
 public:
  StrictJson(const std::string& what, int max_depth, MemoryBudget& budget)
      : what_(what), max_depth_(static_cast<size_t>(max_depth)), budget_(budget) {}

  json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }

  bool string(string_t& value) override {
    budget_.take(kTextBytes + value.size());
    return add(std::move(value));
  }

  bool key(string_t& name) override {
    budget_.take(kKeyBytes + name.size());
    auto& object = open_.back()->get_ref<json::object_t&>();
    const auto [entry, inserted] = object.try_emplace(name);
    if (!inserted) throw FormatError(text("{} has {} twice", what_, json(name).dump()));
    next_ = &entry->second;
    return true;
  }

 private:
  bool add(json value) {
    budget_.take(kValueBytes);
    if (!open_.empty() && open_.back()->is_array()) {
      auto& list = open_.back()->get_ref<json::array_t&>();
      list.push_back(std::move(value));
      next_ = &list.back();
    } else {
      *next_ = std::move(value);
    }
    return true;
  }

  bool open(json container) {
    if (open_.size() >= max_depth_)
      throw FormatError(accel::text("{} is nested too deeply", what_));
    budget_.take(kContainerBytes);
    add(std::move(container));
    open_.push_back(next_);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& what_;
  size_t max_depth_;
  MemoryBudget& budget_;
  json root_;
  json* next_ = &root_;  ///< target of the next value of a key
  std::vector<json*> open_;
};

/// The code unit of the escape "\uD83D" at `at`; none for other texts.
std::optional<unsigned> escaped_unit(std::string_view text, size_t at) {
  constexpr size_t kEscape = 6;
  unsigned unit = 0;
  if (text.substr(at, 2) != "\\u" || at + kEscape > text.size()) return std::nullopt;
  const char* const end = text.data() + at + kEscape;
  const auto [read, error] = std::from_chars(text.data() + at + 2, end, unit, 16);
  return error == std::errc() && read == end ? std::optional(unit) : std::nullopt;
}

bool is_surrogate(std::optional<unsigned> unit, unsigned first) {
  return unit && *unit >= first && *unit < first + 0x400;
}

/// JSON with the values that Python writes beyond it replaced.
std::string plain_json(std::string_view text) {
  constexpr std::string_view kNumbers[] = {"NaN", "-Infinity", "Infinity"};
  constexpr unsigned kHigh = 0xd800, kLow = 0xdc00;
  std::string out;
  bool in_string = false;
  for (size_t at = 0; at < text.size();) {
    size_t length = 1;
    std::string_view piece = text.substr(at, 1);
    if (in_string && text[at] == '\\') {
      const std::optional<unsigned> unit = escaped_unit(text, at);
      const bool pair = is_surrogate(unit, kHigh) && is_surrogate(escaped_unit(text, at + 6), kLow);
      const bool lone = !pair && (is_surrogate(unit, kHigh) || is_surrogate(unit, kLow));
      length = pair ? 12 : (unit ? 6 : 2);
      piece = lone ? "\\ufffd" : text.substr(at, length);
    } else if (text[at] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      for (const std::string_view number : kNumbers) {
        if (text.substr(at).starts_with(number)) length = number.size(), piece = "null";
      }
    }
    out += piece;
    at += length;
  }
  return out;
}

}  // namespace

json parse_python_json(std::string_view text, const std::string& what, int max_depth,
                       MemoryBudget& budget) {
  const bool plain = text.find("\\u") == text.npos && text.find("NaN") == text.npos &&
                     text.find("Infinity") == text.npos;
  if (plain) return parse_strict_json(text, what, max_depth, budget);
  const std::string replaced = plain_json(text);
  return parse_strict_json(replaced, what, max_depth, budget);
}

json parse_strict_json(std::string_view text, const std::string& what, int max_depth,
                       MemoryBudget& budget) {
  // nlohmann stops at a NUL.
  if (text.find('\0') != text.npos) throw FormatError(accel::text("{} has a NUL byte", what));
  StrictJson strict(what, max_depth, budget);
  if (!json::sax_parse(text.begin(), text.end(), &strict)) {
    throw FormatError(accel::text("{} is not JSON", what));
  }
  json parsed = strict.take();
  if (!parsed.is_object()) throw FormatError(accel::text("{} is not a JSON object", what));
  return parsed;
}

}  // namespace accel
