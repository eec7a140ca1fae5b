// Credentials of S3 by single sign-on of the IAM Identity Center.
#pragma once

#include <ctime>
#include <functional>
#include <optional>

#include "core/base/http_client.h"
#include "data/store/aws_profile.h"
#include "data/store/credential_provider.h"

namespace accel {

/// The token that `aws sso login` left in ~/.aws/sso/cache, for sso_account_id and sso_role_name of
/// the profile; none without such settings. A token of an sso-session is renewed from 15 minutes
/// before it expires, by CreateToken of SSO OIDC, and written back as botocore does; of the
/// processes of a machine one renews it. `now` is compared with the token's expiration.
std::optional<CredentialProvider> sso_provider(const AwsProfile& profile,
                                               const ClientFactory& make_client,
                                               const std::function<std::time_t()>& now);

}  // namespace accel
