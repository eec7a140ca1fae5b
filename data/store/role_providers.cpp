#include "data/store/role_providers.h"

#include <filesystem>

#include "core/base/bytes.h"
#include "core/base/command_output.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "data/store/xml.h"

namespace accel {
namespace {

constexpr long kConnectSeconds = 5;
constexpr long kAnswerSeconds = 20;
constexpr auto kProcessTime = std::chrono::minutes(1);

HttpQuery patient(HttpQuery query) {
  query.connect_seconds = kConnectSeconds;
  query.stall_seconds = kAnswerSeconds;
  return query;
}

std::string service_url(const AwsProfile& profile, const std::string& service,
                        const std::string& aws) {
  const std::string given = profile.endpoint(service);
  return given.empty() ? aws : given;
}

struct WebIdentity {
  std::string token_file, role_arn, session_name;
};

std::string web_identity_setting(const AwsProfile& profile, const char* variable,
                                 const char* setting) {
  const std::string value = profile.variable(variable);
  return value.empty() ? profile.setting(setting) : value;
}

ProvidedKeys assume_role(const WebIdentity& identity, const std::string& url,
                         const ClientFactory& make_client, const std::string& name) {
  const std::string token = trimmed(as_text(map_file(identity.token_file).view));
  const std::string body = aws_query({{"Action", "AssumeRoleWithWebIdentity"},
                                      {"Version", "2011-06-15"},
                                      {"RoleArn", identity.role_arn},
                                      {"RoleSessionName", identity.session_name},
                                      {"WebIdentityToken", token}});
  const std::string xml =
      ask(make_client,
          patient({.url = url + "/",
                   .headers = {"Content-Type: application/x-www-form-urlencoded"},
                   .method = "POST",
                   .body = as_bytes(body)}),
          name, [](const std::string& error) { return xml_element(error, "Code").value_or(""); });
  const auto element = [&](const char* wanted) {
    const auto found = xml_element(xml, wanted);
    if (!found) throw IoError(text("{} gave credentials of S3 without '{}'", name, wanted));
    return *found;
  };
  ProvidedKeys out{{element("AccessKeyId"), element("SecretAccessKey"), element("SessionToken")},
                   time_of_iso8601(element("Expiration"))};
  if (!out.expiration) {
    throw IoError(
        text("{} gave credentials of S3 whose '{}' is no time of ISO 8601", name, "Expiration"));
  }
  return out;
}

/// Settings of single sign-on, of an sso-session or of the profile itself.
struct SingleSignOn {
  std::string account, role;
  std::string region = {}, token_file = {}, login = {};
};

std::optional<SingleSignOn> single_sign_on(const AwsProfile& profile) {
  const std::string session = profile.setting("sso_session");
  SingleSignOn out{.account = profile.setting("sso_account_id"),
                   .role = profile.setting("sso_role_name")};
  const auto setting = [&](const char* name) {
    return session.empty() ? profile.setting(name)
                           : profile.setting_of_section("sso-session " + session, name);
  };
  const std::string url = setting("sso_start_url");
  out.region = setting("sso_region");
  if (session.empty() && url.empty() && out.account.empty() && out.role.empty()) {
    return std::nullopt;
  }
  const std::pair<const char*, const std::string*> needed[] = {{"sso_account_id", &out.account},
                                                               {"sso_role_name", &out.role},
                                                               {"sso_region", &out.region},
                                                               {"sso_start_url", &url}};
  for (const auto& [name, value] : needed) {
    if (!value->empty()) continue;
    throw DataError(
        text("the AWS profile '{}' uses single sign-on without {}", profile.name(), name),
        "write it with: aws configure sso");
  }
  const std::string key = digest_of(Digest::Kind::kSha1, session.empty() ? url : session);
  out.token_file = profile.in_home("/.aws/sso/cache/" + key + ".json");
  out.login = text("log in with: aws sso login --profile {}", profile.name());
  return out;
}

/// The token that `aws sso login` left.
std::string sso_token(const SingleSignOn& settings, const std::string& name, std::time_t now) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(settings.token_file, error)) {
    throw DataError(text("{} has no token: '{}' does not exist", name, settings.token_file),
                    settings.login);
  }
  const SharedBytes file = map_file(settings.token_file);
  const std::string token = json_member(as_text(file.view), "accessToken");
  const auto expires = time_of_iso8601(json_member(as_text(file.view), "expiresAt"));
  if (token.empty() || !expires || *expires <= now) {
    throw DataError(
        text("the token of {} in '{}' has expired or is none", name, settings.token_file),
        settings.login);
  }
  return token;
}

}  // namespace

std::optional<CredentialProvider> web_identity_provider(const AwsProfile& profile,
                                                        const ClientFactory& make_client) {
  const WebIdentity given{
      web_identity_setting(profile, "AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file"),
      web_identity_setting(profile, "AWS_ROLE_ARN", "role_arn"),
      web_identity_setting(profile, "AWS_ROLE_SESSION_NAME", "role_session_name")};
  if (given.token_file.empty()) return std::nullopt;
  if (given.role_arn.empty()) {
    throw DataError(
        text("there is a web identity token, '{}', and no role for it", given.token_file),
        "set AWS_ROLE_ARN, or role_arn of the AWS profile");
  }
  WebIdentity identity = given;
  if (identity.session_name.empty()) identity.session_name = "accel-run";
  const std::string url =
      service_url(profile, "STS", "https://sts." + profile.region() + ".amazonaws.com");
  const std::string name = text("the web identity of role '{}'", identity.role_arn);
  return CredentialProvider{
      name, [=] { return std::optional(assume_role(identity, url, make_client, name)); }};
}

std::optional<CredentialProvider> sso_provider(const AwsProfile& profile,
                                               const ClientFactory& make_client,
                                               const std::function<std::time_t()>& now) {
  const auto settings = single_sign_on(profile);
  if (!settings) return std::nullopt;
  const std::string url =
      service_url(profile, "SSO", "https://portal.sso." + settings->region + ".amazonaws.com") +
      "/federation/credentials?" +
      aws_query({{"account_id", settings->account}, {"role_name", settings->role}});
  const std::string name = text("the single sign-on of the AWS profile '{}'", profile.name());
  return CredentialProvider{
      name, [=]() -> std::optional<ProvidedKeys> {
        const std::string token = sso_token(*settings, name, now());
        const HttpQuery query{.url = url, .headers = {"x-amz-sso_bearer_token: " + token}};
        const std::string body =
            ask(make_client, patient(query), name,
                [](const std::string& error) { return json_member(error, "message"); });
        return keys_of_json(body, name,
                            {"accessKeyId", "secretAccessKey", "sessionToken", "expiration"},
                            "roleCredentials");
      }};
}

std::optional<CredentialProvider> process_provider(const AwsProfile& profile) {
  const std::string command = profile.setting("credential_process");
  if (command.empty()) return std::nullopt;
  const std::string name = text("credential_process of the AWS profile '{}'", profile.name());
  return CredentialProvider{
      name, [command, name]() -> std::optional<ProvidedKeys> {
        const auto output = command_output({"sh", "-c", command}, kProcessTime);
        if (!output) {
          throw IoError(text("{} failed or took more than a minute", name),
                        "run the command of ~/.aws/config in a shell to see its error");
        }
        return keys_of_json(*output, name, {.session_token = "SessionToken"});
      }};
}

}  // namespace accel
