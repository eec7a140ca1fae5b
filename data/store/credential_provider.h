// A source of credentials of S3, and the JSON and HTTP that such sources have in common.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/http_client.h"
#include "data/store/s3_signature.h"

namespace accel {

struct ProvidedKeys {
  S3Credentials keys;
  std::optional<std::time_t> expiration = {};  ///< none: they stay valid
};

/// One source of credentials.
struct CredentialProvider {
  std::string name;  ///< for messages: "the instance metadata"
  /// None: the source has no credentials. Throws IoError and DataError.
  std::function<std::optional<ProvidedKeys>()> fetch;
};

/// The names of the members in which JSON has the keys.
struct KeyNames {
  const char* access_key_id = "AccessKeyId";
  const char* secret_access_key = "SecretAccessKey";
  const char* session_token = "Token";
  const char* expiration = "Expiration";
};

/// Seconds since 1970 of "2026-01-31T12:00:00Z", also with a fraction or an offset such as +01:00;
/// none for other text.
std::optional<std::time_t> time_of_iso8601(const std::string& text);

/// The keys in a JSON object, which may be below the member `inside`. Expirations are ISO 8601 or
/// milliseconds since 1970. Throws IoError, which has no part of the JSON, for other text and for
/// missing members; `source` names it.
ProvidedKeys keys_of_json(std::string_view json, const std::string& source, const KeyNames& names,
                          const std::string& inside = {});

/// The first member that is a string; "" without it or for other text than a JSON object.
std::string json_member(std::string_view json, const std::string& name);

/// The first member that is a whole number.
std::optional<int64_t> json_integer(std::string_view json, const std::string& name);

struct HttpAnswer {
  HttpResult result;
  std::string body;

  bool is_ok() const { return result.status == 200 && result.error.empty(); }
  /// "the server answered 403", or the reason of a failed transfer.
  std::string problem() const;
};

/// With the patience for a server of credentials: 5 s for a connection, 20 s without a byte.
HttpQuery patient_query(HttpQuery query);

/// Of a server of credentials: one attempt, without redirects, of at most 64 KiB.
HttpAnswer ask_once(const ClientFactory& make_client, const HttpQuery& query);

/// As ask_once(), with two more attempts after failures that a retry may mend. Throws IoError, with
/// the problem and the `code` of the error in the body, when the last one fails; `source` names the
/// server.
std::string ask(const ClientFactory& make_client, const HttpQuery& query, const std::string& source,
                const std::function<std::string(const std::string& body)>& code);

}  // namespace accel
