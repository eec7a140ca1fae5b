#include "data/store/credential_provider.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/base/whole_number.h"
#include "formats/strict_json.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr size_t kMostOfAnAnswer = 64 << 10;
constexpr int kAttempts = 3;
constexpr auto kPause = std::chrono::milliseconds(200);
constexpr int kMaxAnswerDepth = 8;

std::optional<json> object_in(std::string_view text) {
  try {
    MemoryBudget budget(text.size(), "the answer");
    return parse_strict_json(text, "the answer", kMaxAnswerDepth, budget);
  } catch (const FormatError&) {
    return std::nullopt;
  }
}

std::string string_in(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// "+01:00" or "-0130" in seconds; none for other text.
std::optional<std::time_t> offset_in(const std::string& text) {
  int hours = 0, minutes = 0;
  char sign = 0;
  if (std::sscanf(text.c_str(), "%c%2d:%2d", &sign, &hours, &minutes) != 3 &&
      std::sscanf(text.c_str(), "%c%2d%2d", &sign, &hours, &minutes) != 3) {
    return std::nullopt;
  }
  if (sign != '+' && sign != '-') return std::nullopt;
  return (sign == '+' ? 1 : -1) * (hours * 3600 + minutes * 60);
}

std::optional<std::time_t> expiration_in(const json& value) {
  if (const auto milliseconds = whole_number<int64_t>(value)) return *milliseconds / 1000;
  return value.is_string() ? time_of_iso8601(value.get<std::string>()) : std::nullopt;
}

}  // namespace

std::optional<std::time_t> time_of_iso8601(const std::string& text) {
  std::tm parts = {};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (!end) return std::nullopt;
  std::string rest = end;
  if (rest.starts_with('.')) {
    rest = rest.substr(std::min(rest.find_first_not_of("0123456789", 1), rest.size()));
  }
  const std::time_t seconds = ::timegm(&parts);
  if (rest == "Z" || rest == "UTC") return seconds;
  const auto offset = offset_in(rest);
  return offset ? std::optional(seconds - *offset) : std::nullopt;
}

ProvidedKeys keys_of_json(std::string_view text_of_json, const std::string& source,
                          const KeyNames& names, const std::string& inside) {
  const auto whole = object_in(text_of_json);
  if (!whole) throw IoError(text("{} gave no JSON object with credentials of S3", source));
  const json* object = &*whole;
  if (!inside.empty()) {
    const auto found = whole->find(inside);
    if (found == whole->end() || !found->is_object()) {
      throw IoError(text("{} gave credentials of S3 without '{}'", source, inside));
    }
    object = &*found;
  }
  const auto wanted = [&](const char* name) {
    std::string value = string_in(*object, name);
    if (value.empty()) {
      throw IoError(text("{} gave credentials of S3 without '{}'", source, name));
    }
    return value;
  };
  ProvidedKeys out{{wanted(names.access_key_id), wanted(names.secret_access_key),
                    string_in(*object, names.session_token)}};
  const auto expires = object->find(names.expiration);
  if (expires == object->end() || expires->is_null()) return out;
  out.expiration = expiration_in(*expires);
  if (!out.expiration) {
    throw IoError(text("{} gave credentials of S3 whose '{}' is no time of ISO 8601", source,
                       names.expiration));
  }
  return out;
}

std::string json_member(std::string_view text, const std::string& name) {
  const auto object = object_in(text);
  return object ? string_in(*object, name.c_str()) : "";
}

std::optional<int64_t> json_integer(std::string_view text, const std::string& name) {
  const auto object = object_in(text);
  const auto found = object ? object->find(name) : json::const_iterator();
  return object && found != object->end() ? whole_number<int64_t>(*found) : std::nullopt;
}

std::string HttpAnswer::problem() const {
  return result.error.empty() ? text("the server answered {}", result.status) : result.error;
}

HttpQuery patient_query(HttpQuery query) {
  query.connect_seconds = 5;
  query.stall_seconds = 20;
  return query;
}

HttpAnswer ask_once(const ClientFactory& make_client, const HttpQuery& query) {
  HttpAnswer out;
  out.result = make_client()->perform(query, [&](const HttpResult&, std::string_view bytes) {
    out.body.append(bytes);
    return out.body.size() <= kMostOfAnAnswer;
  });
  return out;
}

std::string ask(const ClientFactory& make_client, const HttpQuery& query, const std::string& source,
                const std::function<std::string(const std::string& body)>& code) {
  for (int attempt = 1;; ++attempt) {
    HttpAnswer answer = ask_once(make_client, query);
    if (answer.is_ok()) return std::move(answer.body);
    if (attempt < kAttempts && is_transient(answer.result)) {
      std::this_thread::sleep_for(kPause * attempt);
      continue;
    }
    const std::string reason = code(answer.body);
    throw IoError(text("cannot fetch the credentials of S3 from {}: {}{}", source, answer.problem(),
                       reason.empty() ? "" : " (" + printable(reason) + ")"));
  }
}

}  // namespace accel
