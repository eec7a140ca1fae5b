// Positions in a JSON document, for messages, and reading of JSON files.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace accel {

/// A value and its path, such as 'model.merges[3]'. Refers to the tree, which must outlive it. All
/// members throw FormatError with the path for a value of another type.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string path)
      : value_(&value), path_(std::move(path)) {}

  /// A required member of an object.
  JsonNode at(const std::string& name) const;
  /// A member of an object; null when absent.
  JsonNode find(const std::string& name) const;
  std::vector<JsonNode> items() const;

  bool is_null() const;
  bool is_text() const;
  bool is_object() const;
  const std::string& text() const;
  /// The code point of a string of one character.
  uint32_t character() const;
  int64_t integer(int64_t least, int64_t most) const;
  double number() const;
  bool flag() const;
  bool flag_or(const std::string& name, bool otherwise) const;
  std::string text_or(const std::string& name, const std::string& otherwise) const;

  /// The object's 'type'.
  const std::string& type() const { return at("type").text(); }
  /// Refuses keys other than `names` and 'type'.
  void only(std::initializer_list<std::string_view> names) const;

  /// Throws "'path' " followed by the reason.
  [[noreturn]] void refuse(const std::string& why) const;
  /// Refuses an unsupported 'type' and lists the supported ones.
  [[noreturn]] void refuse_type(const std::string& known) const;

  const nlohmann::json& json() const { return *value_; }
  const std::string& path() const { return path_; }

 private:
  const nlohmann::json* value_;
  std::string path_;
};

/// Calls `use` with the file's object and its text, which live until it returns. Throws DataError
/// with the path for a damaged file and for a FormatError of `use`.
void read_json_file(const std::filesystem::path& path,
                    const std::function<void(const JsonNode&, std::string_view)>& use);

/// The same for JSON in memory. Throws FormatError.
void read_json_text(std::string_view text,
                    const std::function<void(const JsonNode&, std::string_view)>& use);

/// The object of a text, within the same limits. Throws FormatError.
nlohmann::json read_json_tree(std::string_view text);

}  // namespace accel
