#include "data/store/s3_signature.h"

#include <array>

#include "core/base/digest.h"
#include "core/base/formatted.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr size_t kHmacBlock = 64;
/// SHA-256 of an empty body.
constexpr const char* kEmptyBody =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string sha256(std::string_view text) {
  return digest_of(Digest::Kind::kSha256, text);
}

std::string bytes_of_hex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  }
  return out;
}

/// HMAC-SHA256 (RFC 2104) in hex digits.
std::string hmac_hex(std::string key, std::string_view message) {
  if (key.size() > kHmacBlock) key = bytes_of_hex(sha256(key));
  key.resize(kHmacBlock, '\0');
  std::string inner, outer;
  for (const char c : key) {
    inner += static_cast<char>(c ^ 0x36);
    outer += static_cast<char>(c ^ 0x5c);
  }
  return sha256(outer + bytes_of_hex(sha256(inner.append(message))));
}

std::string hmac(std::string key, std::string_view message) {
  return bytes_of_hex(hmac_hex(std::move(key), message));
}

/// "20130524T000000Z"
std::string timestamp(std::time_t now) {
  std::tm utc = {};
  gmtime_r(&now, &utc);
  return formatted("%04d%02d%02dT%02d%02d%02dZ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                   utc.tm_hour, utc.tm_min, utc.tm_sec);
}

}  // namespace

std::string aws_encoded(std::string_view text, bool keep_slashes) {
  static constexpr std::string_view kKept = "-_.~";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (plain || kKept.find(c) != kKept.npos || (keep_slashes && c == '/')) {
      out += c;
    } else {
      out += formatted("%%%02X", unsigned{byte});
    }
  }
  return out;
}

std::string aws_query(const std::map<std::string, std::string>& query) {
  std::map<std::string, std::string> encoded;
  for (const auto& [name, value] : query) {
    encoded[aws_encoded(name, false)] = aws_encoded(value, false);
  }
  return joined(encoded, "&", [](const auto& pair) { return pair.first + "=" + pair.second; });
}

std::vector<std::string> signed_headers(const S3Request& request, const S3Credentials& credentials,
                                        const std::string& region, std::time_t now) {
  std::map<std::string, std::string> headers = request.headers;
  const auto lines = [&headers] {
    std::vector<std::string> out;
    for (const auto& [name, value] : headers) {
      if (name != "host") out.push_back(name + ": " + value);  // which libcurl sends
    }
    return out;
  };
  if (credentials.empty()) return lines();
  const std::string time = timestamp(now), day = time.substr(0, 8);
  headers["host"] = request.host;
  headers["x-amz-content-sha256"] = kEmptyBody;
  headers["x-amz-date"] = time;
  if (!credentials.session_token.empty()) {
    headers["x-amz-security-token"] = credentials.session_token;
  }
  const std::string names = joined(headers, ";", [](const auto& pair) { return pair.first; });
  std::string canonical =
      "GET\n" + aws_encoded(request.path, true) + "\n" + aws_query(request.query) + "\n";
  for (const auto& [name, value] : headers) canonical += name + ":" + value + "\n";
  canonical += "\n" + names + "\n" + kEmptyBody;
  const std::string scope = day + "/" + region + "/s3/aws4_request";
  const std::string to_sign = "AWS4-HMAC-SHA256\n" + time + "\n" + scope + "\n" + sha256(canonical);
  const std::string of_day = hmac("AWS4" + credentials.secret_access_key, day);
  const std::string key = hmac(hmac(hmac(of_day, region), "s3"), "aws4_request");
  std::vector<std::string> out = lines();
  out.push_back("Authorization: AWS4-HMAC-SHA256 Credential=" + credentials.access_key_id + "/" +
                scope + ",SignedHeaders=" + names + ",Signature=" + hmac_hex(key, to_sign));
  return out;
}

}  // namespace accel
