#include "data/store/aws_credentials.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "data/store/metadata_providers.h"
#include "data/store/role_providers.h"
#include "data/store/sso_provider.h"

namespace accel {
namespace {

/// As botocore's advisory refresh.
constexpr std::time_t kRefreshAhead = 15 * 60;
constexpr std::time_t kAttemptPause = 30;

std::optional<CredentialProvider> provider_of_keys(const std::string& name,
                                                   const S3Credentials& keys) {
  if (keys.empty()) return std::nullopt;
  return CredentialProvider{name, [keys] { return std::optional(ProvidedKeys{keys}); }};
}

std::optional<CredentialProvider> environment_provider(const AwsProfile& profile) {
  const S3Credentials keys{profile.variable("AWS_ACCESS_KEY_ID"),
                           profile.variable("AWS_SECRET_ACCESS_KEY"),
                           profile.variable("AWS_SESSION_TOKEN")};
  if (keys.access_key_id.empty() != keys.secret_access_key.empty()) {
    throw DataError(text("of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY only {} is set",
                         keys.empty() ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID"),
                    "set both, or neither to use another source of credentials");
  }
  return provider_of_keys("the environment", keys);
}

/// Refuses a setting that this program cannot use instead of passing on to a later source.
void refuse_setting(const AwsProfile& profile, const char* setting) {
  if (profile.setting(setting).empty()) return;
  throw DataError(
      text("the AWS profile '{}' has {}, which is not supported", profile.name(), setting),
      text("set AWS_PROFILE to another profile, with this line for the AWS CLI: "
           "credential_process = aws configure export-credentials --profile {}",
           profile.name()));
}

}  // namespace

std::optional<CredentialProvider> find_credential_provider(
    const AwsProfile& profile, const ClientFactory& make_client,
    const std::function<std::time_t()>& now) {
  if (auto found = environment_provider(profile)) return found;
  if (profile.setting("web_identity_token_file").empty()) refuse_setting(profile, "role_arn");
  if (auto found = web_identity_provider(profile, make_client)) return found;
  if (auto found = sso_provider(profile, make_client, now)) return found;
  const std::string name = text("the AWS profile '{}'", profile.name());
  if (auto found = provider_of_keys(name, profile.static_keys(AwsFile::kCredentials))) return found;
  refuse_setting(profile, "login_session");
  if (auto found = process_provider(profile)) return found;
  if (auto found = provider_of_keys(name, profile.static_keys(AwsFile::kConfig))) return found;
  if (auto found = container_provider(profile, make_client)) return found;
  return instance_provider(profile, make_client);
}

AwsCredentials::AwsCredentials(std::optional<CredentialProvider> provider,
                               std::function<std::time_t()> now)
    : provider_(std::move(provider)), now_(std::move(now)) {}

S3Credentials AwsCredentials::current() {
  if (!provider_) return {};
  const std::lock_guard lock(mutex_);
  const std::time_t now = now_();
  const bool expires_soon = held_ && held_->expiration && now >= *held_->expiration - kRefreshAhead;
  if (!held_ || (expires_soon && now >= next_attempt_)) fetch(now);
  return held_->keys;
}

void AwsCredentials::fetch(std::time_t now) {
  next_attempt_ = now + kAttemptPause;
  try {
    const auto fresh = provider_->fetch();
    if (!fresh && held_) throw IoError(text("{} has no credentials any more", provider_->name));
    held_ = fresh.value_or(ProvidedKeys{});
    has_warned_ = false;
  } catch (const Error& error) {
    if (!held_ || *held_->expiration <= now) throw;
    if (!std::exchange(has_warned_, true)) {
      warn(text("the credentials of S3 expire in {} s and cannot be refreshed: {}",
                *held_->expiration - now, error.what()));
    }
  }
}

std::string AwsCredentials::refusal_hint(const std::string& region) const {
  const std::lock_guard lock(mutex_);
  if (!held_ || held_->keys.empty()) {
    return "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
           "AWS_PROFILE";
  }
  return text(
      "check the credentials, which are those of {}, their permissions, AWS_REGION, which "
      "is '{}', and the clock",
      provider_->name, region);
}

}  // namespace accel
