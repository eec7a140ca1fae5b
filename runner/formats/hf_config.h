// The config.json of a Hugging Face model folder, read key by key; what is wrong with it is
// collected, so that one look tells everything.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace accel {

class HfConfig {
 public:
  /// Reads `folder`/config.json. Throws DataError when it is missing or no JSON object.
  explicit HfConfig(const std::string& folder);
  /// Reads a text; `path` names it in problems. Throws DataError.
  HfConfig(std::string_view text, std::string path);

  const std::string& path() const { return path_; }
  const nlohmann::json& values() const { return *values_; }

  std::string model_type() const;
  /// The class of transformers that wrote the folder, such as "GPT2LMHeadModel"; "" when untold.
  std::string architecture() const;
  /// Whether the key is there and not null.
  bool has(const char* key) const;

  /// A missing key, or one of another type, becomes a problem, and 0 is returned.
  int64_t integer(const char* key);
  // A key that is missing or null has the fallback.
  int64_t integer(const char* key, int64_t fallback);
  double number(const char* key, double fallback);
  bool flag(const char* key, bool fallback);
  std::string text(const char* key, const std::string& fallback);
  /// The section under `key`, with problems of its own; empty when it is missing or null.
  HfConfig section(const char* key);

  /// Adds "'path' has KEY VALUE, which WHY" unless the key is missing, null or `wanted`.
  void want(const char* key, const nlohmann::json& wanted, const char* why);
  void refuse(std::string problem) { problems_.push_back(std::move(problem)); }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  /// Null: missing or null.
  const nlohmann::json* find(const char* key) const;
  void wrong_type(const char* key, const char* wanted);

  std::string path_;
  std::shared_ptr<const nlohmann::json> values_;
  std::vector<std::string> problems_;
};

}  // namespace accel
