// Tokens of single sign-on: their renewal, and what is written back.
#include "data/store/sso_provider.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "tests/unit/data/store/fake_answers.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::sso_provider_test {
namespace {

using nlohmann::json;

constexpr std::time_t kNow = 1'800'000'000;  // 2027-01-15T08:00:00Z
constexpr auto kToken = ".aws/sso/cache/11f6ad8ec52a2984abaafd7c3b516503785c2072.json";
constexpr auto kLegacyToken = ".aws/sso/cache/51e69892ab49df85c6230ccc57f8e1d1606caccc.json";
constexpr auto kOidc = "POST https://oidc.r.amazonaws.com/token";
constexpr auto kPortal =
    "GET https://portal.sso.r.amazonaws.com/federation/credentials?account_id=1&role_name=o";
constexpr auto kLogin = "\nlog in with: aws sso login --profile default";
constexpr auto kName = "the single sign-on of the AWS profile 'default'";

class SsoProviderTest : public testing::Test {
 protected:
  SsoProviderTest() {
    folder_.write(".aws/config",
                  "[sso-session x]\nsso_region=r\nsso_start_url=u\n"
                  "[default]\nsso_session=x\nsso_account_id=1\nsso_role_name=o\n");
    server_.pages[kPortal] = {200, R"({"roleCredentials":{"accessKeyId":"O","secretAccessKey":"s",)"
                                   R"("sessionToken":"t","expiration":1800000060000}})"};
    server_.pages[kOidc] = {
        200,
        R"({"accessToken":"new","expiresIn":3600,"refreshToken":"next","tokenType":"Bearer"})"};
  }
  static json token(const std::string& expires) {
    return {{"startUrl", "u"},        {"region", "r"},
            {"accessToken", "old"},   {"expiresAt", expires},
            {"clientId", "client"},   {"clientSecret", "client secret"},
            {"refreshToken", "once"}, {"registrationExpiresAt", "2027-03-01T00:00:00Z"}};
  }
  /// The token with which the keys were asked for, or the error.
  std::string used(const json& file, const std::string& name = kToken) {
    folder_.write(name, file.dump());
    server_.take_log();
    const std::string error = complaint([this] {
      const AwsProfile profile([this](const std::string& variable) {
        if (variable == "HOME") return std::optional(folder_.path());
        const auto found = variables_.find(variable);
        return found == variables_.end() ? std::nullopt : std::optional(found->second);
      });
      sso_provider(profile, server_.factory(), [] { return kNow; })->fetch();
    });
    log_ = server_.take_log();
    if (!error.empty()) return error;
    return log_.back().substr(log_.back().rfind(' ') + 1);
  }
  json kept(const std::string& name = kToken) const {
    return json::parse(file_content(folder_.path(name)));
  }

  TempFolder folder_;
  std::map<std::string, std::string> variables_;
  FakeAnswers server_;
  std::vector<std::string> log_;
};

TEST_F(SsoProviderTest, ATokenIsRenewedAndWrittenBackAsBotocoreDoes) {
  for (const std::string expires : {"2027-01-15T07:00:00Z", "2027-01-15T08:14:59Z"}) {
    EXPECT_EQ(used(token(expires)), "new");
    EXPECT_EQ(log_, (std::vector<std::string>{
                        std::string(kOidc) +
                            R"( | Content-Type: application/json | {"grantType":"refresh_token",)"
                            R"("clientId":"client","clientSecret":"client secret",)"
                            R"("refreshToken":"once"})",
                        std::string(kPortal) + " | x-amz-sso_bearer_token: new"}));
    json wanted = token("2027-01-15T09:00:00Z");
    wanted["accessToken"] = "new";
    wanted["refreshToken"] = "next";
    EXPECT_EQ(kept(), wanted);
    struct stat status = {};
    ASSERT_EQ(::stat(folder_.path(kToken).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path(".aws/sso/cache")), {}),
            1);
  EXPECT_EQ(used(token("2027-01-15T08:15:01Z")), "old");
  EXPECT_EQ(log_.size(), 1U);
}

TEST_F(SsoProviderTest, ARenewalWithoutARefreshTokenIsTheLast) {
  server_.pages[kOidc] = {200, R"({"accessToken":"new","expiresIn":3600})"};
  EXPECT_EQ(used(token("2027-01-15T07:00:00Z")), "new");
  EXPECT_FALSE(kept().contains("refreshToken"));
}

TEST_F(SsoProviderTest, TheServerMayBeAnother) {
  variables_["AWS_ENDPOINT_URL_SSO_OIDC"] = "http://127.0.0.1:9/";
  server_.pages["POST http://127.0.0.1:9/token"] = server_.pages[kOidc];
  EXPECT_EQ(used(token("2027-01-15T07:00:00Z")), "new");
}

TEST_F(SsoProviderTest, TokensThatCannotBeRenewedNeedALogin) {
  const std::string expired = std::string("the token of ") + kName + " in '" +
                              folder_.path(kToken) + "' has expired or is none" + kLogin;
  for (const std::string name :
       {"refreshToken", "clientId", "clientSecret", "registrationExpiresAt"}) {
    json file = token("2027-01-15T07:00:00Z");
    file.erase(name);
    EXPECT_EQ(used(file), expired) << name;
    EXPECT_TRUE(log_.empty()) << name;
  }
  json file = token("2027-01-15T07:00:00Z");
  file["registrationExpiresAt"] = "2027-01-15T08:00:00Z";
  EXPECT_EQ(used(file), expired);
  EXPECT_TRUE(log_.empty());
  folder_.write(".aws/config",
                "[default]\nsso_start_url=u\nsso_region=r\nsso_"
                "account_id=1\nsso_role_name=o\n");
  EXPECT_EQ(used(token("2027-01-15T07:00:00Z"), kLegacyToken),
            std::string("the token of ") + kName + " in '" + folder_.path(kLegacyToken) +
                "' has expired or is none" + kLogin);
  EXPECT_TRUE(log_.empty());
  EXPECT_EQ(used(token("2027-01-15T08:00:01Z"), kLegacyToken), "old");
}

TEST_F(SsoProviderTest, AFailedRenewalIsAnErrorOnceTheTokenHasExpired) {
  const auto expired = [&](const std::string& problem) {
    return text("the token of {} in '{}' has expired and cannot be renewed: {}", kName,
                folder_.path(kToken), problem) +
           kLogin;
  };
  const std::pair<FakeAnswer, std::string> cases[] = {
      {{400, R"({"error":"invalid_grant","error_description":"x"})"},
       "cannot fetch the credentials of S3 from the OIDC server of single "
       "sign-on: the server "
       "answered 400 (invalid_grant)"},
      {{200, R"({"accessToken":"new"})"},
       "the OIDC server of single sign-on gave no 'accessToken' with "
       "'expiresIn'"},
      {{200, R"({"expiresIn":3600})"},
       "the OIDC server of single sign-on gave no 'accessToken' with "
       "'expiresIn'"},
      {{200, R"({"accessToken":"new","expiresIn":0})"},
       "the OIDC server of single sign-on gave no 'accessToken' with "
       "'expiresIn'"},
  };
  for (const auto& [answer, problem] : cases) {
    server_.pages[kOidc] = answer;
    EXPECT_EQ(used(token("2027-01-15T07:00:00Z")), expired(problem));
    EXPECT_EQ(kept(), token("2027-01-15T07:00:00Z"));
  }
  server_.pages[kOidc] = cases[0].first;
  testing::internal::CaptureStderr();
  EXPECT_EQ(used(token("2027-01-15T08:10:00Z")), "old");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            text("warning: the token of {} expires in {} s and cannot be renewed: {}", kName, 600,
                 cases[0].second) +
                "\n");
}

TEST_F(SsoProviderTest, ATokenThatCannotBeWrittenIsAnError) {
  const std::string draft = folder_.path(kToken) + "." + std::to_string(::getpid()) + ".new";
  std::filesystem::create_directories(draft);
  EXPECT_EQ(used(token("2027-01-15T07:00:00Z")),
            std::string("the token of ") + kName + " in '" + folder_.path(kToken) +
                "' has expired and cannot be renewed: cannot write '" + folder_.path(kToken) +
                "': File exists" + kLogin);
}

}  // namespace
}  // namespace accel::sso_provider_test
