#include "runner/formats/strict_json.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace accel {
namespace {

using nlohmann::json;

// What values cost in memory: a slot in a list that doubles as it grows and in the list that
// nlohmann makes of all values to destroy them; what a container or a text is apart from its slot;
// a node in the tree of an object's keys.
constexpr size_t kValueBytes = 64;
constexpr size_t kContainerBytes = 64;
constexpr size_t kTextBytes = 48;
constexpr size_t kKeyBytes = 128;

/// Builds the tree itself: nlohmann's own parser, given a callback, looks through all earlier
/// siblings at the end of each object.
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

  bool string(string_t& text) override {
    budget_.take(kTextBytes + text.size());
    return add(std::move(text));
  }

  bool key(string_t& name) override {
    budget_.take(kKeyBytes + name.size());
    auto& object = open_.back()->get_ref<json::object_t&>();
    const auto [place, inserted] = object.try_emplace(name);
    if (!inserted) throw FormatError(what_ + " has " + json(name).dump() + " twice");
    next_ = &place->second;
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
    if (open_.size() >= max_depth_) throw FormatError(what_ + " nests too deeply");
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
  json* next_ = &root_;  ///< where the value of a key goes, and where the last one went
  std::vector<json*> open_;
};

}  // namespace

json parse_strict_json(std::string_view text, const std::string& what, int max_depth,
                       MemoryBudget& budget) {
  // nlohmann takes a NUL for the end of the text.
  if (text.find('\0') != text.npos) throw FormatError(what + " holds a NUL byte");
  StrictJson strict(what, max_depth, budget);
  if (!json::sax_parse(text.begin(), text.end(), &strict)) {
    throw FormatError(what + " is not JSON");
  }
  json parsed = strict.take();
  if (!parsed.is_object()) throw FormatError(what + " is not a JSON object");
  return parsed;
}

}  // namespace accel
