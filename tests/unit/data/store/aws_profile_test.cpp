#include "data/store/aws_profile.h"

#include <gtest/gtest.h>

#include <map>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::aws_profile_test {
namespace {

class AwsProfileTest : public testing::Test {
 protected:
  AwsProfileTest() {
    variables_["HOME"] = folder_.path();
    folder_.write(".aws/credentials",
                  "# keys\n[default]\naws_access_key_id = A\naws_secret_access_key=S\n\n"
                  "[team]\naws_access_key_id=T\naws_secret_access_key=U\naws_session_token=V\n"
                  "[half]\naws_access_key_id=H\n");
    folder_.write(".aws/config",
                  "[default]\nregion = eu-north-1\n[profile team]\n"
                  "endpoint_url = http://127.0.0.1:9000/\n[profile sso]\nsso_session=x\n"
                  "[sso-session x]\nsso_region = r\n");
  }

  AwsProfile profile() const {
    return AwsProfile([this](const std::string& name) {
      const auto it = variables_.find(name);
      return it == variables_.end() ? std::nullopt : std::optional(it->second);
    });
  }
  /// "key secret token region endpoint", or the error.
  std::string settings() const {
    std::string out;
    const std::string error = complaint([&] {
      const AwsProfile found = profile();
      const S3Credentials keys = found.static_keys(AwsFile::kCredentials);
      for (const std::string& each : {keys.access_key_id, keys.secret_access_key,
                                      keys.session_token, found.region(), found.endpoint("S3")}) {
        out += (out.empty() ? "" : " ") + (each.empty() ? "-" : each);
      }
    });
    return error.empty() ? out : error;
  }

  TempFolder folder_;
  std::map<std::string, std::string> variables_;
};

TEST_F(AwsProfileTest, VariablesComeBeforeTheFiles) {
  EXPECT_EQ(settings(), "A S - eu-north-1 -");
  variables_["AWS_PROFILE"] = "team";
  EXPECT_EQ(settings(), "T U V us-east-1 http://127.0.0.1:9000");
  variables_["AWS_ENDPOINT_URL"] = "http://a";
  variables_["AWS_DEFAULT_REGION"] = "r1";
  EXPECT_EQ(settings(), "T U V r1 http://a");
  variables_["AWS_ENDPOINT_URL_S3"] = "http://b";
  variables_["AWS_REGION"] = "r2";
  EXPECT_EQ(settings(), "T U V r2 http://b");
  EXPECT_EQ(profile().endpoint("STS"), "http://a");
}

TEST_F(AwsProfileTest, FilesMayBeElsewhereOrMissing) {
  variables_["AWS_SHARED_CREDENTIALS_FILE"] = folder_.path("none");
  variables_["AWS_CONFIG_FILE"] = folder_.path("none");
  EXPECT_EQ(settings(), "- - - us-east-1 -");
}

TEST_F(AwsProfileTest, SettingsAreOfEitherFileAndOfOtherSections) {
  variables_["AWS_PROFILE"] = "team";
  EXPECT_EQ(profile().setting("aws_session_token"), "V");
  EXPECT_EQ(profile().setting("endpoint_url"), "http://127.0.0.1:9000/");
  EXPECT_EQ(profile().setting("region"), "");
  EXPECT_EQ(profile().setting_of_section("sso-session x", "sso_region"), "r");
  EXPECT_EQ(profile().setting_of_section("sso-session y", "sso_region"), "");
}

TEST_F(AwsProfileTest, RefusesHalfAPairAndUnknownProfiles) {
  variables_["AWS_PROFILE"] = "nobody";
  EXPECT_EQ(settings(),
            "AWS_PROFILE is 'nobody', which is in neither the credentials nor the config file of "
            "AWS\nname a profile of ~/.aws/credentials or ~/.aws/config, or unset AWS_PROFILE");
  variables_["AWS_PROFILE"] = "half";
  EXPECT_EQ(settings(),
            "the AWS profile 'half' has only aws_access_key_id of aws_access_key_id and "
            "aws_secret_access_key\nwrite both, or neither to use another source of credentials");
}

}  // namespace
}  // namespace accel::aws_profile_test
