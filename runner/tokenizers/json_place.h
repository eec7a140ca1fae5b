// Values of a JSON file that know where they are in it, for errors that say so.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace accel {

/// A value and its path, such as 'model.merges[3]'. Refers to the tree, which must outlive it. All
/// members throw FormatError, naming the path, when the value is not what they want.
class JsonPlace {
 public:
  JsonPlace(const nlohmann::json& value, std::string path)
      : value_(&value), path_(std::move(path)) {}

  /// A member of an object that must be there.
  JsonPlace at(const std::string& name) const;
  /// A null where the member is absent.
  JsonPlace find(const std::string& name) const;
  std::vector<JsonPlace> items() const;

  bool is_null() const;
  bool is_text() const;
  bool is_object() const;
  const std::string& text() const;
  /// A text of exactly one character, as a code point.
  uint32_t character() const;
  int64_t integer(int64_t least, int64_t most) const;
  double number() const;
  bool flag() const;
  bool flag_or(const std::string& name, bool otherwise) const;
  std::string text_or(const std::string& name, const std::string& otherwise) const;

  /// The object's 'type'.
  const std::string& type() const { return at("type").text(); }
  /// Refuses an object with other keys than `names` and 'type'.
  void only(std::initializer_list<std::string_view> names) const;

  /// Throws "'path' " and the reason.
  [[noreturn]] void refuse(const std::string& why) const;
  /// What is there is a kind that this program does not know: says which ones it does.
  [[noreturn]] void refuse_type(const std::string& known) const;

  const nlohmann::json& json() const { return *value_; }
  const std::string& path() const { return path_; }

 private:
  const nlohmann::json* value_;
  std::string path_;
};

}  // namespace accel
