// The profile of AWS's tools: settings of the environment and of the files in ~/.aws.
#pragma once

#include <map>
#include <string>

#include "core/base/environment.h"
#include "data/store/s3_signature.h"

namespace accel {

enum class AwsFile { kCredentials, kConfig };

/// The profile AWS_PROFILE ("default") of AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials) and
/// AWS_CONFIG_FILE (~/.aws/config), as read by the constructor.
class AwsProfile {
 public:
  /// Throws DataError for an unknown profile that AWS_PROFILE names.
  explicit AwsProfile(const EnvironmentLookup& environment);

  const std::string& name() const { return name_; }
  /// Whether AWS_PROFILE names it.
  bool is_named() const { return is_named_; }
  /// An environment variable; "" when it is unset.
  std::string variable(const std::string& name) const;
  /// `path`, which begins with a slash, in the user's folder; "" without HOME.
  std::string in_home(const std::string& path) const;
  /// Of the credentials file, else of the config file; "" without it.
  std::string setting(const std::string& name) const;
  /// Of another section of the config file, such as "sso-session NAME"; "" without it.
  std::string setting_of_section(const std::string& section, const std::string& name) const;
  /// Empty without keys. Throws DataError for a key without its secret.
  S3Credentials static_keys(AwsFile file) const;
  /// AWS_REGION or AWS_DEFAULT_REGION, else the profile's, else us-east-1.
  std::string region() const;
  /// AWS_ENDPOINT_URL_<service>, AWS_ENDPOINT_URL, else the profile's endpoint_url, without a slash
  /// at the end: "http://127.0.0.1:9000". Empty: AWS's own.
  std::string endpoint(const std::string& service) const;
  /// The same, else `aws`.
  std::string service_url(const std::string& service, const std::string& aws) const;

 private:
  EnvironmentLookup environment_;
  std::string name_, config_path_;
  std::map<std::string, std::string> keys_, config_;
  bool is_named_ = false;
};

}  // namespace accel
