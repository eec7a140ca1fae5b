#include "runner/formats/strict_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace accel {
namespace {

using nlohmann::json;

// What values cost in memory: a slot in a list that doubles as it grows; a node in a tree of keys
// and in the set that finds a key's second coming.
constexpr size_t kValueBytes = 64;
constexpr size_t kKeyBytes = 256;

/// Sees each event of a parse.
class StrictJson {
 public:
  StrictJson(const std::string& what, int max_depth, MemoryBudget& budget)
      : what_(what), max_depth_(max_depth), budget_(budget) {}

  bool operator()(int depth, json::parse_event_t event, json& value) {
    if (depth > max_depth_) throw FormatError(what_ + " nests too deeply");
    const auto* text = value.get_ptr<const std::string*>();
    switch (event) {
      case json::parse_event_t::key:
        budget_.take(kKeyBytes + 2 * text->size());
        if (!keys_.back().insert(*text).second) {
          throw FormatError(what_ + " has " + shown(value) + " twice");
        }
        break;
      case json::parse_event_t::object_start:
        budget_.take(kKeyBytes);
        keys_.emplace_back();
        break;
      case json::parse_event_t::object_end:
        keys_.pop_back();
        break;
      case json::parse_event_t::array_start:
      case json::parse_event_t::value:
        budget_.take(kValueBytes + (text ? text->size() : 0));
        break;
      case json::parse_event_t::array_end:
        break;
    }
    return true;
  }

 private:
  static std::string shown(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  const std::string& what_;
  int max_depth_;
  MemoryBudget& budget_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

json parse_strict_json(std::string_view text, const std::string& what, int max_depth,
                       MemoryBudget& budget) {
  // nlohmann takes a NUL for the end of the text.
  if (text.find('\0') != text.npos) throw FormatError(what + " holds a NUL byte");
  json parsed;
  try {
    StrictJson strict(what, max_depth, budget);
    parsed = json::parse(text.begin(), text.end(), std::ref(strict));
  } catch (const json::exception&) {
    throw FormatError(what + " is not JSON");
  }
  if (!parsed.is_object()) throw FormatError(what + " is not a JSON object");
  return parsed;
}

}  // namespace accel
