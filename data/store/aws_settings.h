// Credentials, region and endpoint of S3, from the environment and the files of AWS's tools.
#pragma once

#include <string>

#include "core/base/environment.h"
#include "data/store/s3_signature.h"

namespace accel {

struct AwsSettings {
  S3Credentials credentials;  ///< empty: requests are not signed
  std::string region;
  std::string endpoint;  ///< of an S3-compatible server: "http://127.0.0.1:9000"; empty: AWS
};

/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, else the profile AWS_PROFILE
/// ("default") of AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials) and AWS_CONFIG_FILE
/// (~/.aws/config); AWS_REGION or AWS_DEFAULT_REGION, else the profile's, else us-east-1;
/// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, else the profile's endpoint_url. Throws DataError for a
/// key without its secret, an unknown profile that is named, and one without static keys.
AwsSettings aws_settings(const EnvironmentLookup& environment);

}  // namespace accel
