// Reader of config.json of Hugging Face model folders; collects all problems.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace accel {

class HfConfig {
 public:
  /// Reads `folder`/config.json. Throws DataError if it is missing or not a JSON object.
  explicit HfConfig(const std::string& folder);
  /// Parses a text; `path` names it in problems. Throws DataError.
  HfConfig(std::string_view text, std::string path);

  const std::string& path() const { return path_; }
  const nlohmann::json& values() const { return *values_; }

  std::string model_type() const;
  /// The transformers class that wrote the folder, such as "GPT2LMHeadModel"; "" if unknown.
  std::string architecture() const;
  /// Whether the key exists and is not null.
  bool has(const char* key) const;
  /// Whether the key exists, be it null.
  bool states(const char* key) const;

  /// Adds a problem and returns 0 for a missing key or another type.
  int64_t integer(const char* key);
  // A missing or null key yields the fallback.
  int64_t integer(const char* key, int64_t fallback);
  std::vector<int64_t> integers(const char* key);   ///< empty if missing
  std::vector<std::string> texts(const char* key);  ///< empty if missing
  double number(const char* key, double fallback);
  bool flag(const char* key, bool fallback);
  std::string text(const char* key, const std::string& fallback);
  /// The section under `key`, with separate problems; empty if missing or null.
  HfConfig section(const char* key);

  /// Adds the problem "'path' has KEY VALUE, which WHY" unless the key is missing, null or
  /// `wanted`.
  void want(const char* key, const nlohmann::json& wanted, const char* why);
  /// Declares keys that do not change what the model computes.
  void ignore(std::initializer_list<const char*> keys) { known_.insert(keys.begin(), keys.end()); }
  /// Adds a problem for each key that was neither asked for nor ignored, except those of
  /// transformers without effect on the computation and unset ones: null, false, 0 or empty.
  void refuse_unknown_keys();
  void refuse(std::string problem) { problems_.push_back(std::move(problem)); }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  /// Null for a missing or null value.
  const nlohmann::json* find(const char* key) const;
  void wrong_type(const char* key, const char* wanted);

  std::string path_;
  std::shared_ptr<const nlohmann::json> values_;
  mutable std::set<std::string, std::less<>> known_;
  std::vector<std::string> problems_;
};

}  // namespace accel
