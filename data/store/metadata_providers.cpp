#include "data/store/metadata_providers.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/base/url.h"

namespace accel {
namespace {

constexpr auto kContainerName = "the container's credentials server";
constexpr auto kInstanceName = "the instance metadata";
constexpr auto kContainerServer = "http://169.254.170.2";
constexpr long kContainerSeconds = 2;
constexpr long kMostSeconds = 60;
constexpr auto kRoles = "/latest/meta-data/iam/security-credentials/";

bool is_true(const std::string& value) {
  return ascii_lower(value) == "true";
}

/// Whether a token may be sent to the host without encryption: this machine, and the addresses of
/// ECS and EKS.
bool is_local_host(const std::string& host) {
  static constexpr std::array<std::string_view, 5> kHosts = {"localhost", "[::1]", "169.254.170.2",
                                                             "169.254.170.23", "[fd00:ec2::23]"};
  if (std::find(kHosts.begin(), kHosts.end(), host) != kHosts.end()) return true;
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos;
}

std::string host_of(const std::string& url) {
  const std::string origin = origin_of_url(url);
  const std::string host = origin.substr(origin.find("://") + 3);
  const size_t after_brackets = host.starts_with('[') ? host.find(']') : 0;
  return host.substr(0, std::min(host.find(':', after_brackets), host.size()));
}

std::string container_url(const AwsProfile& profile) {
  const std::string path = profile.variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  if (!path.empty()) return kContainerServer + path;
  const std::string url = profile.variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (url.empty() || url.starts_with("https://")) return url;
  if (url.starts_with("http://") && is_local_host(host_of(url))) return url;
  throw DataError(text("AWS_CONTAINER_CREDENTIALS_FULL_URI is '{}', which is neither encrypted nor "
                       "an address of this machine",
                       printable_url(url)),
                  "use an https URL, or one of 127.0.0.1, 169.254.170.2 or 169.254.170.23");
}

/// The Authorization header, read again for each request; none without a token.
std::vector<std::string> container_headers(const AwsProfile& profile) {
  const std::string path = profile.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  const std::string token = path.empty() ? profile.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN")
                                         : std::string(as_text(map_file(path).view));
  if (token.find_first_of("\r\n") != token.npos) {
    throw DataError("the authorization token of the container has a line end",
                    "write the token of AWS_CONTAINER_AUTHORIZATION_TOKEN[_FILE] in one line");
  }
  std::vector<std::string> out = {"Accept: application/json"};
  if (!token.empty()) out.push_back("Authorization: " + token);
  return out;
}

/// The instance metadata, one session of a token.
class InstanceMetadata {
 public:
  InstanceMetadata(const AwsProfile& profile, const ClientFactory& make_client)
      : make_client_(make_client),
        seconds_(number(profile, "AWS_METADATA_SERVICE_TIMEOUT")),
        attempts_(number(profile, "AWS_METADATA_SERVICE_NUM_ATTEMPTS")),
        allows_version_1_(!is_true(profile.variable("AWS_EC2_METADATA_V1_DISABLED"))) {
    server_ = profile.variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const bool ipv6 =
        ascii_lower(profile.variable("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE")) == "ipv6";
    if (server_.empty()) server_ = ipv6 ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
    while (server_.ends_with('/')) server_.pop_back();
  }

  std::optional<ProvidedKeys> keys() const {
    HttpQuery query{.url = server_ + "/latest/api/token",
                    .headers = {"x-aws-ec2-metadata-token-ttl-seconds: 21600"},
                    .method = "PUT",
                    .body = as_bytes("")};
    const HttpAnswer token = ask_patiently(query);
    query = {};
    const int status = token.result.status;
    if (token.is_ok()) {
      query.headers = {"x-aws-ec2-metadata-token: " + trimmed(token.body)};
    } else if (!allows_version_1_ || (status != 403 && status != 404 && status != 405)) {
      return std::nullopt;
    }
    query.url = server_ + kRoles;
    const HttpAnswer roles = ask_patiently(query);
    const std::string role = trimmed(roles.body.substr(0, roles.body.find('\n')));
    if (!roles.is_ok() || role.empty()) return std::nullopt;
    query.url += role;
    const HttpAnswer answer = ask_patiently(query);
    if (!answer.is_ok()) {
      throw IoError(
          text("cannot fetch the credentials of S3 from {}: {}", kInstanceName, answer.problem()));
    }
    return keys_of_json(answer.body, kInstanceName, {});
  }

 private:
  static long number(const AwsProfile& profile, const char* name) {
    const std::string value = profile.variable(name);
    if (value.empty()) return 1;
    long parsed = 0;
    const char* const end = value.data() + value.size();
    const auto result = std::from_chars(value.data(), end, parsed);
    if (result.ec != std::errc() || result.ptr != end || parsed < 1 || parsed > kMostSeconds) {
      throw DataError(
          text("{} is '{}', not a whole number from 1 to {}", name, value, kMostSeconds),
          "unset it, or set it to such a number");
    }
    return parsed;
  }

  HttpAnswer ask_patiently(HttpQuery query) const {
    query.connect_seconds = query.stall_seconds = seconds_;
    HttpAnswer answer;
    for (long i = 0; i < attempts_; ++i) {
      answer = ask_once(make_client_, query);
      if (answer.is_ok() || !is_transient(answer.result)) break;
    }
    return answer;
  }

  ClientFactory make_client_;
  std::string server_;
  long seconds_, attempts_;
  bool allows_version_1_;
};

}  // namespace

std::optional<CredentialProvider> container_provider(const AwsProfile& profile,
                                                     const ClientFactory& make_client) {
  const std::string url = container_url(profile);
  if (url.empty()) return std::nullopt;
  const auto fetch = [profile, make_client, url]() -> std::optional<ProvidedKeys> {
    const HttpQuery query{.url = url,
                          .headers = container_headers(profile),
                          .stall_seconds = kContainerSeconds,
                          .connect_seconds = kContainerSeconds};
    const std::string body = ask(make_client, query, kContainerName, [](const std::string& error) {
      return json_member(error, "code");
    });
    return keys_of_json(body, kContainerName, {});
  };
  return CredentialProvider{kContainerName, fetch};
}

std::optional<CredentialProvider> instance_provider(const AwsProfile& profile,
                                                    const ClientFactory& make_client) {
  if (is_true(profile.variable("AWS_EC2_METADATA_DISABLED"))) return std::nullopt;
  return CredentialProvider{kInstanceName, [metadata = InstanceMetadata(profile, make_client)] {
                              return metadata.keys();
                            }};
}

}  // namespace accel
