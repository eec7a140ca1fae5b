// Credentials of S3: the first source that is configured, refreshed before they expire.
#pragma once

#include <ctime>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "core/base/http_client.h"
#include "data/store/aws_profile.h"
#include "data/store/credential_provider.h"

namespace accel {

/// The first source in botocore's order: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
/// AWS_SESSION_TOKEN; web identity; single sign-on; keys of the credentials file;
/// credential_process; keys of the config file; the container's server; the instance metadata. None
/// of them: no provider. Throws DataError for a key without its secret and for a profile that needs
/// what is not supported.
std::optional<CredentialProvider> find_credential_provider(const AwsProfile& profile,
                                                           const ClientFactory& make_client,
                                                           const std::function<std::time_t()>& now);

/// Thread-safe. The provider is asked when keys are first needed.
class AwsCredentials {
 public:
  AwsCredentials(std::optional<CredentialProvider> provider, std::function<std::time_t()> now);

  /// Keys that are fetched again from 15 minutes before they expire. Empty: requests are not
  /// signed. Throws IoError and DataError when there are no valid ones; a failed refresh of keys
  /// that are still valid is a warning.
  S3Credentials current();
  /// What to do about a request that was refused, in `region`.
  std::string refusal_hint(const std::string& region) const;

 private:
  void fetch(std::time_t now);

  const std::optional<CredentialProvider> provider_;
  const std::function<std::time_t()> now_;
  mutable std::mutex mutex_;
  std::optional<ProvidedKeys> held_;
  std::time_t next_attempt_ = 0;
  bool has_warned_ = false;
};

}  // namespace accel
