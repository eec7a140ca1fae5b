// Credentials of S3 that a profile or the environment derives from another identity.
#pragma once

#include <optional>

#include "core/base/http_client.h"
#include "data/store/aws_profile.h"
#include "data/store/credential_provider.h"

namespace accel {

/// AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN and AWS_ROLE_SESSION_NAME, else
/// web_identity_token_file, role_arn and role_session_name of the profile:
/// AssumeRoleWithWebIdentity of STS, as pods of EKS use it. None without a token file. Throws
/// DataError without a role.
std::optional<CredentialProvider> web_identity_provider(const AwsProfile& profile,
                                                        const ClientFactory& make_client);

/// The command credential_process of the profile, run by sh; none without it.
std::optional<CredentialProvider> process_provider(const AwsProfile& profile);

}  // namespace accel
