// Credentials of S3 from the servers that containers and instances of AWS have.
#pragma once

#include <optional>

#include "core/base/http_client.h"
#include "data/store/aws_profile.h"
#include "data/store/credential_provider.h"

namespace accel {

/// The credentials server of ECS and of EKS Pod Identity: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or
/// AWS_CONTAINER_CREDENTIALS_FULL_URI, with AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE or
/// AWS_CONTAINER_AUTHORIZATION_TOKEN; none without either. Throws DataError for a server to which a
/// token must not be sent.
std::optional<CredentialProvider> container_provider(const AwsProfile& profile,
                                                     const ClientFactory& make_client);

/// The instance metadata of EC2, version 2, and version 1 where the server has no tokens. None with
/// AWS_EC2_METADATA_DISABLED. A machine without such a server has no credentials: it is found out
/// in AWS_METADATA_SERVICE_TIMEOUT seconds (1), AWS_METADATA_SERVICE_NUM_ATTEMPTS times (1).
std::optional<CredentialProvider> instance_provider(const AwsProfile& profile,
                                                    const ClientFactory& make_client);

}  // namespace accel
