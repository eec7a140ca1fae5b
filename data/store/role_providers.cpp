#include "data/store/role_providers.h"

#include "core/base/bytes.h"
#include "core/base/command_output.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "data/store/xml.h"

namespace accel {
namespace {

constexpr auto kProcessTime = std::chrono::minutes(1);

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
          patient_query({.url = url + "/",
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
      profile.service_url("STS", "https://sts." + profile.region() + ".amazonaws.com");
  const std::string name = text("the web identity of role '{}'", identity.role_arn);
  return CredentialProvider{
      name, [=] { return std::optional(assume_role(identity, url, make_client, name)); }};
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
