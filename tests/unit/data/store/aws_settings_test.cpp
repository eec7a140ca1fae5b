#include "data/store/aws_settings.h"

#include <gtest/gtest.h>

#include <map>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::aws_settings_test {
namespace {

class AwsSettingsTest : public testing::Test {
 protected:
  AwsSettingsTest() {
    variables_["HOME"] = folder_.path();
    folder_.write(".aws/credentials",
                  "# keys\n[default]\naws_access_key_id = A\naws_secret_access_key=S\n\n"
                  "[team]\naws_access_key_id=T\naws_secret_access_key=U\naws_session_token=V\n"
                  "[half]\naws_access_key_id=H\n");
    folder_.write(".aws/config",
                  "[default]\nregion = eu-north-1\n[profile team]\n"
                  "endpoint_url = http://127.0.0.1:9000/\n[profile sso]\nsso_session=x\n");
  }

  /// "key secret token region endpoint", or the error.
  std::string settings() const {
    std::string out;
    const std::string error = complaint([&] {
      const AwsSettings found = aws_settings([&](const std::string& name) {
        const auto it = variables_.find(name);
        return it == variables_.end() ? std::nullopt : std::optional(it->second);
      });
      const S3Credentials& keys = found.credentials;
      for (const std::string& each : {keys.access_key_id, keys.secret_access_key,
                                      keys.session_token, found.region, found.endpoint}) {
        out += (out.empty() ? "" : " ") + (each.empty() ? "-" : each);
      }
    });
    return error.empty() ? out : error;
  }

  TempFolder folder_;
  std::map<std::string, std::string> variables_;
};

TEST_F(AwsSettingsTest, VariablesComeBeforeTheProfile) {
  EXPECT_EQ(settings(), "A S - eu-north-1 -");
  variables_["AWS_PROFILE"] = "team";
  EXPECT_EQ(settings(), "T U V us-east-1 http://127.0.0.1:9000");
  variables_["AWS_ENDPOINT_URL"] = "http://a";
  variables_["AWS_DEFAULT_REGION"] = "r1";
  EXPECT_EQ(settings(), "T U V r1 http://a");
  variables_["AWS_ENDPOINT_URL_S3"] = "http://b";
  variables_["AWS_REGION"] = "r2";
  variables_["AWS_ACCESS_KEY_ID"] = "E";
  variables_["AWS_SECRET_ACCESS_KEY"] = "F";
  EXPECT_EQ(settings(), "E F - r2 http://b");
}

TEST_F(AwsSettingsTest, FilesMayBeElsewhereOrMissing) {
  variables_["AWS_SHARED_CREDENTIALS_FILE"] = folder_.path("none");
  variables_["AWS_CONFIG_FILE"] = folder_.path("none");
  EXPECT_EQ(settings(), "- - - us-east-1 -");
}

TEST_F(AwsSettingsTest, RefusesHalfAPairAndUnknownProfiles) {
  variables_["AWS_PROFILE"] = "nobody";
  EXPECT_EQ(settings(),
            "AWS_PROFILE is 'nobody', which is in neither the credentials nor the config file of "
            "AWS\nname a profile of ~/.aws/credentials, or set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY");
  variables_["AWS_PROFILE"] = "half";
  EXPECT_EQ(settings(),
            "the AWS profile 'half' has no pair of aws_access_key_id and aws_secret_access_key\n"
            "export temporary keys: eval \"$(aws configure export-credentials --format env)\"");
  variables_["AWS_PROFILE"] = "sso";
  EXPECT_EQ(settings().substr(0, 28), "the AWS profile 'sso' has no");
  variables_["AWS_ACCESS_KEY_ID"] = "E";
  EXPECT_EQ(settings(),
            "of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY only AWS_ACCESS_KEY_ID is set\n"
            "set both, or neither to use a profile of ~/.aws/credentials");
}

}  // namespace
}  // namespace accel::aws_settings_test
