#include "data/store/sso_provider.h"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/bytes.h"
#include "core/base/digest.h"
#include "core/base/drafts.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/mapped_file.h"
#include "core/base/owned_fd.h"
#include "core/base/text.h"

namespace accel {
namespace {

/// As botocore's SSOTokenProvider.
constexpr std::time_t kRenewAhead = 15 * 60;
constexpr auto kOidcName = "the OIDC server of single sign-on";

/// Settings of single sign-on, of an sso-session or of the profile itself.
struct SingleSignOn {
  std::string account, role;
  std::string start_url = {}, region = {}, token_file = {};
  std::string oidc_url = {};  ///< empty for a profile without sso-session: no renewal
  std::string name = {};      ///< for messages
  std::string login = {};     ///< the remedy
};

std::optional<SingleSignOn> single_sign_on(const AwsProfile& profile) {
  const std::string session = profile.setting("sso_session");
  SingleSignOn out{.account = profile.setting("sso_account_id"),
                   .role = profile.setting("sso_role_name")};
  const auto setting = [&](const char* name) {
    return session.empty() ? profile.setting(name)
                           : profile.setting_of_section("sso-session " + session, name);
  };
  out.start_url = setting("sso_start_url");
  out.region = setting("sso_region");
  if (session.empty() && out.start_url.empty() && out.account.empty() && out.role.empty()) {
    return std::nullopt;
  }
  const std::pair<const char*, const std::string*> needed[] = {{"sso_account_id", &out.account},
                                                               {"sso_role_name", &out.role},
                                                               {"sso_region", &out.region},
                                                               {"sso_start_url", &out.start_url}};
  for (const auto& [name, value] : needed) {
    if (!value->empty()) continue;
    throw DataError(
        text("the AWS profile '{}' uses single sign-on without {}", profile.name(), name),
        "write it with: aws configure sso");
  }
  const std::string key = digest_of(Digest::Kind::kSha1, session.empty() ? out.start_url : session);
  out.token_file = profile.in_home("/.aws/sso/cache/" + key + ".json");
  if (!session.empty()) {
    out.oidc_url = profile.service_url("SSO_OIDC", "https://oidc." + out.region + ".amazonaws.com");
  }
  out.name = text("the single sign-on of the AWS profile '{}'", profile.name());
  out.login = text("log in with: aws sso login --profile {}", profile.name());
  return out;
}

/// The content of a token's file.
struct SsoToken {
  std::string access;
  std::time_t expires = 0;
  std::string refresh = {}, client_id = {}, client_secret = {}, registration_expires = {};

  bool is_valid(std::time_t until) const { return !access.empty() && expires > until; }
  bool is_renewable(std::time_t now) const {
    const auto registered = time_of_iso8601(registration_expires);
    return !refresh.empty() && !client_id.empty() && !client_secret.empty() && registered &&
           *registered > now;
  }
};

/// The token that `aws sso login`, or a renewal, left.
SsoToken read_token(const SingleSignOn& settings) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(settings.token_file, error)) {
    throw DataError(
        text("{} has no token: '{}' does not exist", settings.name, settings.token_file),
        settings.login);
  }
  const SharedBytes file = map_file(settings.token_file);
  const auto member = [&](const char* name) { return json_member(as_text(file.view), name); };
  return {.access = member("accessToken"),
          .expires = time_of_iso8601(member("expiresAt")).value_or(0),
          .refresh = member("refreshToken"),
          .client_id = member("clientId"),
          .client_secret = member("clientSecret"),
          .registration_expires = member("registrationExpiresAt")};
}

std::string iso8601(std::time_t time) {
  std::tm parts = {};
  ::gmtime_r(&time, &parts);
  std::string out(sizeof "2027-01-15T08:00:00Z", '\0');
  out.resize(std::strftime(out.data(), out.size(), "%Y-%m-%dT%H:%M:%SZ", &parts));
  return out;
}

bool write_all(const OwnedFd& fd, std::string_view content) {
  return ::write(fd.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size());
}

/// Replaces the file, which only its user may read.
void write_token(const SingleSignOn& settings, const SsoToken& token) {
  nlohmann::ordered_json json = {{"startUrl", settings.start_url},
                                 {"region", settings.region},
                                 {"accessToken", token.access},
                                 {"expiresAt", iso8601(token.expires)},
                                 {"clientId", token.client_id},
                                 {"clientSecret", token.client_secret},
                                 {"registrationExpiresAt", token.registration_expires}};
  if (!token.refresh.empty()) json["refreshToken"] = token.refresh;
  const std::string content = json.dump();
  const std::string& path = settings.token_file;
  const std::string draft = draft_of(path);
  ::unlink(draft.c_str());  // of a killed process
  const OwnedFd fd = open_fd(draft, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (!fd || !write_all(fd, content)) {
    const int error = errno;
    ::unlink(draft.c_str());
    throw IoError(text("cannot write '{}': {}", path, std::strerror(error)), full_disk_hint(error));
  }
  try {
    publish_file(draft, path);
  } catch (...) {
    ::unlink(draft.c_str());
    throw;
  }
}

/// CreateToken of SSO OIDC.
SsoToken created_token(const SingleSignOn& settings, const SsoToken& token,
                       const ClientFactory& make_client, std::time_t now) {
  const std::string body = nlohmann::ordered_json({{"grantType", "refresh_token"},
                                                   {"clientId", token.client_id},
                                                   {"clientSecret", token.client_secret},
                                                   {"refreshToken", token.refresh}})
                               .dump();
  const HttpQuery query{.url = settings.oidc_url + "/token",
                        .headers = {"Content-Type: application/json"},
                        .method = "POST",
                        .body = as_bytes(body)};
  const std::string answer =
      ask(make_client, patient_query(query), kOidcName,
          [](const std::string& error) { return json_member(error, "error"); });
  SsoToken out = token;
  out.access = json_member(answer, "accessToken");
  out.refresh = json_member(answer, "refreshToken");
  const auto seconds = json_integer(answer, "expiresIn");
  if (out.access.empty() || !seconds || *seconds <= 0 || *seconds > INT32_MAX) {
    throw IoError(text("{} gave no 'accessToken' with 'expiresIn'", kOidcName));
  }
  out.expires = now + *seconds;
  return out;
}

/// A lock among the processes of a machine; none where the file system has no locks.
OwnedFd lock_folder(const std::string& path) {
  OwnedFd folder = open_fd(path, O_RDONLY | O_DIRECTORY);
  while (folder && ::flock(folder.get(), LOCK_EX) != 0 && errno == EINTR) continue;
  return folder;
}

/// Renews the token and writes it back. A failure is a warning while the token is valid.
void renew(const SingleSignOn& settings, SsoToken& token, const ClientFactory& make_client,
           std::time_t now) try {
  const SsoToken fresh = created_token(settings, token, make_client, now);
  write_token(settings, fresh);
  token = fresh;
} catch (const Error& error) {
  if (!token.is_valid(now)) {
    throw DataError(text("the token of {} in '{}' has expired and cannot be renewed: {}",
                         settings.name, settings.token_file, error.what()),
                    settings.login);
  }
  warn(text("the token of {} expires in {} s and cannot be renewed: {}", settings.name,
            token.expires - now, error.what()));
}

/// The token, renewed if it expires soon and can be.
std::string valid_token(const SingleSignOn& settings, const ClientFactory& make_client,
                        std::time_t now) {
  SsoToken token = read_token(settings);
  const auto wants_renewal = [&] {
    return !settings.oidc_url.empty() && !token.is_valid(now + kRenewAhead) &&
           token.is_renewable(now);
  };
  if (wants_renewal()) {
    const OwnedFd lock = lock_folder(folder_of(settings.token_file));
    token = read_token(settings);  // another process may have renewed it
    if (wants_renewal()) renew(settings, token, make_client, now);
  }
  if (token.is_valid(now)) return token.access;
  throw DataError(
      text("the token of {} in '{}' has expired or is none", settings.name, settings.token_file),
      settings.login);
}

}  // namespace

std::optional<CredentialProvider> sso_provider(const AwsProfile& profile,
                                               const ClientFactory& make_client,
                                               const std::function<std::time_t()>& now) {
  const auto settings = single_sign_on(profile);
  if (!settings) return std::nullopt;
  const std::string url =
      profile.service_url("SSO", "https://portal.sso." + settings->region + ".amazonaws.com") +
      "/federation/credentials?" +
      aws_query({{"account_id", settings->account}, {"role_name", settings->role}});
  return CredentialProvider{
      settings->name, [=, settings = *settings]() -> std::optional<ProvidedKeys> {
        const std::string token = valid_token(settings, make_client, now());
        const HttpQuery query{.url = url, .headers = {"x-amz-sso_bearer_token: " + token}};
        const std::string body =
            ask(make_client, patient_query(query), settings.name,
                [](const std::string& error) { return json_member(error, "message"); });
        return keys_of_json(body, settings.name,
                            {"accessKeyId", "secretAccessKey", "sessionToken", "expiration"},
                            "roleCredentials");
      }};
}

}  // namespace accel
