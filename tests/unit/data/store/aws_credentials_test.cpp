// Sources of credentials in botocore's order, and their refresh.
#include "data/store/aws_credentials.h"

#include <gtest/gtest.h>

#include <map>

#include "core/base/error.h"
#include "tests/unit/data/store/fake_answers.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::aws_credentials_test {
namespace {

constexpr auto kMetadata = "http://169.254.169.254/latest/";
constexpr auto kRoles = "meta-data/iam/security-credentials/";
constexpr std::time_t kNow = 1'800'000'000;  // 2027-01-15T08:00:00Z

std::string json_keys(const std::string& key, const std::string& expiration) {
  return R"({"Code":"Success","AccessKeyId":")" + key +
         R"(","SecretAccessKey":"secret","Token":"token","Expiration":")" + expiration + "\"}";
}

class AwsCredentialsTest : public testing::Test {
 protected:
  AwsCredentialsTest() { variables_["HOME"] = folder_.path(); }

  std::optional<CredentialProvider> provider() {
    const AwsProfile profile([this](const std::string& name) {
      const auto it = variables_.find(name);
      return it == variables_.end() ? std::nullopt : std::optional(it->second);
    });
    return find_credential_provider(profile, server_.factory(), [this] { return now_; });
  }
  /// "source: key secret token expiration", or the error.
  std::string found() {
    std::string out;
    const std::string error = complaint([&] {
      const auto source = provider();
      const auto keys = source ? source->fetch() : std::nullopt;
      if (!keys) {
        out = (source ? source->name + ": " : "") + "none";
        return;
      }
      out = source->name + ": " + keys->keys.access_key_id + " " + keys->keys.secret_access_key +
            " " + keys->keys.session_token + " " +
            (keys->expiration ? std::to_string(*keys->expiration - kNow) : "-");
    });
    return error.empty() ? out : error;
  }
  void serve_metadata(const std::string& keys) {
    server_.pages[std::string("PUT ") + kMetadata + "api/token"] = {200, "session"};
    server_.pages[std::string("GET ") + kMetadata + kRoles] = {200, "role\n"};
    server_.pages[std::string("GET ") + kMetadata + kRoles + "role"] = {200, keys};
  }
  /// Every source has keys, once the profile and the environment name it.
  void serve_all() {
    folder_.write("token", "jwt\n");
    const std::string sts =
        "<R><Credentials><AccessKeyId>W</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
        "<SessionToken>t</SessionToken><Expiration>2027-01-15T09:00:00Z</Expiration></Credentials>"
        "</R>";
    serve_metadata(json_keys("I", "2027-01-15T09:00:00Z"));
    server_.pages["POST https://sts.us-east-1.amazonaws.com/"] = {200, sts};
    server_.pages["GET http://169.254.170.2/v2/x"] = {200, json_keys("C", "2027-01-15T08:30:00Z")};
    server_.pages
        ["GET https://portal.sso.r.amazonaws.com/federation/credentials?account_id=1&role_name=o"] =
        {200, R"({"roleCredentials":{"accessKeyId":"O","secretAccessKey":"s","sessionToken":"t",)"
              R"("expiration":1800000060000}})"};
    folder_.write(".aws/sso/cache/11f6ad8ec52a2984abaafd7c3b516503785c2072.json",
                  R"({"accessToken":"bearer","expiresAt":"2027-01-15T08:00:01Z"})");
  }
  AwsCredentials credentials() {
    return {provider(), [this] { return now_; }};
  }

  TempFolder folder_;
  std::map<std::string, std::string> variables_;
  FakeAnswers server_;
  std::time_t now_ = kNow;
};

TEST_F(AwsCredentialsTest, SourcesAreUsedInTheOrderOfBotocore) {
  serve_all();
  const std::string profile = "the AWS profile 'default'";
  EXPECT_EQ(found(), "the instance metadata: I secret token 3600");
  EXPECT_EQ(server_.take_log(),
            (std::vector<std::string>{
                "PUT http://169.254.169.254/latest/api/token | "
                "x-aws-ec2-metadata-token-ttl-seconds: 21600",
                "GET http://169.254.169.254/latest/meta-data/iam/security-credentials/ | "
                "x-aws-ec2-metadata-token: session",
                "GET http://169.254.169.254/latest/meta-data/iam/security-credentials/role | "
                "x-aws-ec2-metadata-token: session"}));
  variables_["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/v2/x";
  EXPECT_EQ(found(), "the container's credentials server: C secret token 1800");
  std::string config = "[sso-session x]\nsso_region=r\nsso_start_url=u\n[default]\n";
  folder_.write(".aws/config", config + "aws_access_key_id=F\naws_secret_access_key=s\n");
  EXPECT_EQ(found(), profile + ": F s  -");
  config += "aws_access_key_id=F\naws_secret_access_key=s\n";
  config += R"(credential_process = echo '{"Version":1,"AccessKeyId":"P","SecretAccessKey":"s"}')"
            "\n";
  folder_.write(".aws/config", config);
  EXPECT_EQ(found(), "credential_process of the AWS profile 'default': P s  -");
  folder_.write(".aws/credentials", "[default]\naws_access_key_id=K\naws_secret_access_key=s\n");
  EXPECT_EQ(found(), profile + ": K s  -");
  config += "sso_session=x\nsso_account_id=1\nsso_role_name=o\n";
  folder_.write(".aws/config", config);
  server_.take_log();
  EXPECT_EQ(found(), "the single sign-on of the AWS profile 'default': O s t 60");
  EXPECT_EQ(server_.take_log(),
            std::vector<std::string>{"GET https://portal.sso.r.amazonaws.com/federation/credentials"
                                     "?account_id=1&role_name=o | x-amz-sso_bearer_token: bearer"});
  variables_["AWS_WEB_IDENTITY_TOKEN_FILE"] = folder_.path("token");
  variables_["AWS_ROLE_ARN"] = "arn:r";
  EXPECT_EQ(found(), "the web identity of role 'arn:r': W s t 3600");
  EXPECT_EQ(server_.take_log(),
            std::vector<std::string>{
                "POST https://sts.us-east-1.amazonaws.com/ | Content-Type: "
                "application/x-www-form-urlencoded | Action=AssumeRoleWithWebIdentity&RoleArn=arn%"
                "3Ar&RoleSessionName=accel-run&Version=2011-06-15&WebIdentityToken=jwt"});
  folder_.write(".aws/config", config + "role_arn = arn:other\nsource_profile = base\n");
  EXPECT_EQ(found(),
            "the AWS profile 'default' has role_arn, which is not supported\n"
            "set AWS_PROFILE to another profile, with this line for the AWS CLI: "
            "credential_process = aws configure export-credentials --profile default");
  variables_["AWS_ACCESS_KEY_ID"] = "E";
  variables_["AWS_SECRET_ACCESS_KEY"] = "s";
  EXPECT_EQ(found(), "the environment: E s  -");
  variables_.erase("AWS_SECRET_ACCESS_KEY");
  EXPECT_EQ(found(),
            "of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY only AWS_ACCESS_KEY_ID is set\n"
            "set both, or neither to use another source of credentials");
}

TEST_F(AwsCredentialsTest, AMachineWithoutInstanceMetadataHasNone) {
  EXPECT_EQ(found(), "the instance metadata: none");
  EXPECT_EQ(server_.take_log().size(), 1U);
  variables_["AWS_METADATA_SERVICE_NUM_ATTEMPTS"] = "3";
  EXPECT_EQ(found(), "the instance metadata: none");
  EXPECT_EQ(server_.take_log().size(), 3U);
  variables_["AWS_METADATA_SERVICE_TIMEOUT"] = "soon";
  EXPECT_EQ(found(),
            "AWS_METADATA_SERVICE_TIMEOUT is 'soon', not a whole number from 1 to 60\n"
            "unset it, or set it to such a number");
  variables_["AWS_EC2_METADATA_DISABLED"] = "true";
  EXPECT_EQ(found(), "none");
}

TEST_F(AwsCredentialsTest, InstanceMetadataMayBeElsewhereOrOfVersion1) {
  variables_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = "http://127.0.0.1:9/";
  const std::string roles = std::string("http://127.0.0.1:9/latest/") + kRoles;
  server_.pages["PUT http://127.0.0.1:9/latest/api/token"] = {404};
  server_.pages["GET " + roles] = {200, "role"};
  server_.pages["GET " + roles + "role"] = {200, json_keys("I", "2027-01-15T09:00:00Z")};
  EXPECT_EQ(found(), "the instance metadata: I secret token 3600");
  EXPECT_EQ(server_.take_log()[1], "GET " + roles);
  server_.pages["GET " + roles + "role"] = {500};
  EXPECT_EQ(found(),
            "cannot fetch the credentials of S3 from the instance metadata: the server answered "
            "500");
  variables_["AWS_EC2_METADATA_V1_DISABLED"] = "true";
  EXPECT_EQ(found(), "the instance metadata: none");
}

TEST_F(AwsCredentialsTest, ContainersSendTheirTokenToLocalServersOnly) {
  const char* const url = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "variable";
  for (const std::string local : {"http://127.0.0.5:80/x", "http://localhost/x", "http://[::1]:7/x",
                                  "http://169.254.170.23/v1", "https://a.b/x"}) {
    variables_[url] = local;
    server_.pages = {{"GET " + local, {200, json_keys("C", "2027-01-15T08:30:00+01:00")}}};
    EXPECT_EQ(found(), "the container's credentials server: C secret token -1800");
    EXPECT_EQ(server_.take_log(),
              std::vector<std::string>{"GET " + local +
                                       " | Accept: application/json | Authorization: variable"});
  }
  folder_.write("token", "file");
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = folder_.path("token");
  found();
  EXPECT_NE(server_.take_log()[0].find("Authorization: file"), std::string::npos);
  folder_.write("token", "a\nb");
  EXPECT_EQ(found(),
            "the authorization token of the container has a line end\n"
            "write the token of AWS_CONTAINER_AUTHORIZATION_TOKEN[_FILE] in one line");
  for (const std::string far : {"http://127.0.0.1.evil/x", "ftp://127.0.0.1"}) {
    variables_[url] = far;
    EXPECT_EQ(found().substr(0, 45 + far.size()),
              "AWS_CONTAINER_CREDENTIALS_FULL_URI is '" + far + "', whi");
  }
  variables_[url] = "http://u:p@10.0.0.1/x?q";
  EXPECT_EQ(found(),
            "AWS_CONTAINER_CREDENTIALS_FULL_URI is 'http://10.0.0.1/x', which is neither encrypted "
            "nor an address of this machine\nuse an https URL, or one of 127.0.0.1, 169.254.170.2 "
            "or 169.254.170.23");
}

TEST_F(AwsCredentialsTest, FailuresNameTheSourceAndNoSecret) {
  variables_["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/x";
  FakeAnswer& answer = server_.pages["GET http://169.254.170.2/x"];
  const std::string source = "the container's credentials server";
  EXPECT_EQ(found(),
            "cannot fetch the credentials of S3 from " + source + ": Couldn't connect to server");
  EXPECT_EQ(server_.take_log().size(), 3U);
  answer = {403, R"({"code":"AccessDenied","message":"m"})"};
  EXPECT_EQ(found(), "cannot fetch the credentials of S3 from " + source +
                         ": the server answered 403 (AccessDenied)");
  EXPECT_EQ(server_.take_log().size(), 1U);
  answer = {200, "not JSON"};
  EXPECT_EQ(found(), source + " gave no JSON object with credentials of S3");
  answer = {200, R"({"AccessKeyId":"A"})"};
  EXPECT_EQ(found(), source + " gave credentials of S3 without 'SecretAccessKey'");
  answer = {200, json_keys("A", "tomorrow")};
  EXPECT_EQ(found(), source + " gave credentials of S3 whose 'Expiration' is no time of ISO 8601");
}

TEST_F(AwsCredentialsTest, ProfilesSayWhatTheyLack) {
  variables_["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/token";
  EXPECT_EQ(found(),
            "there is a web identity token, '/token', and no role for it\n"
            "set AWS_ROLE_ARN, or role_arn of the AWS profile");
  variables_["AWS_WEB_IDENTITY_TOKEN_FILE"] = folder_.path("token");
  variables_["AWS_ROLE_ARN"] = "arn:r";
  folder_.write("token", "jwt");
  server_.pages["POST https://sts.us-east-1.amazonaws.com/"] = {
      400, "<E><Code>ExpiredTokenException</Code></E>"};
  EXPECT_EQ(found(),
            "cannot fetch the credentials of S3 from the web identity of role 'arn:r': the server "
            "answered 400 (ExpiredTokenException)");
  variables_.erase("AWS_WEB_IDENTITY_TOKEN_FILE");
  variables_["AWS_PROFILE"] = "work";
  folder_.write(".aws/config", "[profile work]\nsso_start_url=u\nsso_region=r\n");
  EXPECT_EQ(found(),
            "the AWS profile 'work' uses single sign-on without sso_account_id\n"
            "write it with: aws configure sso");
  folder_.write(".aws/config",
                "[profile work]\nsso_start_url=u\nsso_region=r\nsso_account_id=1\n"
                "sso_role_name=o\n");
  const std::string path =
      folder_.path(".aws/sso/cache/51e69892ab49df85c6230ccc57f8e1d1606caccc.json");
  const std::string login = "\nlog in with: aws sso login --profile work";
  const std::string name = "the single sign-on of the AWS profile 'work'";
  EXPECT_EQ(found(), name + " has no token: '" + path + "' does not exist" + login);
  folder_.write(".aws/sso/cache/51e69892ab49df85c6230ccc57f8e1d1606caccc.json",
                R"({"accessToken":"bearer","expiresAt":"2027-01-15T08:00:00Z"})");
  EXPECT_EQ(found(), "the token of " + name + " in '" + path + "' has expired or is none" + login);
  folder_.write(".aws/config", "[profile work]\ncredential_process = exit 1\n");
  EXPECT_EQ(found(),
            "credential_process of the AWS profile 'work' failed or took more than a minute\n"
            "run the command of ~/.aws/config in a shell to see its error");
}

TEST_F(AwsCredentialsTest, KeysAreRefreshedBeforeTheyExpire) {
  serve_metadata(json_keys("A", "2027-01-15T09:00:00Z"));
  AwsCredentials held = credentials();
  EXPECT_EQ(server_.take_log().size(), 0U);
  EXPECT_EQ(held.current().access_key_id, "A");
  serve_metadata(json_keys("B", "2027-01-15T10:00:00Z"));
  now_ = kNow + 44 * 60;
  EXPECT_EQ(held.current().access_key_id, "A");
  now_ = kNow + 45 * 60;
  EXPECT_EQ(held.current().access_key_id, "B");
  EXPECT_EQ(held.refusal_hint("r"),
            "check the credentials, which are those of the instance metadata, their permissions, "
            "AWS_REGION, which is 'r', and the clock");
}

TEST_F(AwsCredentialsTest, AFailedRefreshEndsARunOnlyAfterTheExpiration) {
  serve_metadata(json_keys("A", "2027-01-15T08:10:00Z"));
  AwsCredentials held = credentials();
  EXPECT_EQ(held.current().access_key_id, "A");
  server_.pages.clear();
  server_.take_log();
  now_ = kNow + 60;
  testing::internal::CaptureStderr();
  EXPECT_EQ(held.current().access_key_id, "A");
  EXPECT_EQ(held.current().access_key_id, "A");
  EXPECT_EQ(server_.take_log().size(), 1U);  // the next attempt is after a pause
  now_ = kNow + 100;
  EXPECT_EQ(held.current().access_key_id, "A");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: the credentials of S3 expire in 540 s and cannot be refreshed: the instance "
            "metadata has no credentials any more\n");
  now_ = kNow + 601;
  EXPECT_EQ(complaint([&] { held.current(); }),
            "the instance metadata has no credentials any more");
}

TEST(CredentialTimeTest, ReadsIso8601) {
  EXPECT_EQ(time_of_iso8601("2027-01-15T08:00:00Z"), kNow);
  EXPECT_EQ(time_of_iso8601("2027-01-15T08:00:00.123Z"), kNow);
  EXPECT_EQ(time_of_iso8601("2027-01-15T08:00:00UTC"), kNow);
  EXPECT_EQ(time_of_iso8601("2027-01-15T09:30:00+0130"), kNow);
  EXPECT_EQ(time_of_iso8601("2027-01-15T07:00:00-01:00"), kNow);
  for (const char* other :
       {"", "soon", "2027-01-15", "2027-01-15T08:00:00", "2027-01-15T08:00:00x"})
    EXPECT_FALSE(time_of_iso8601(other)) << other;
}

}  // namespace
}  // namespace accel::aws_credentials_test
