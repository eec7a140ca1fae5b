// Signatures of AWS's own examples: docs "Authenticating Requests: Using the Authorization Header".
#include "data/store/s3_signature.h"

#include <gtest/gtest.h>

namespace accel {
namespace {

constexpr std::time_t kMay2013 = 1369353600;  // 2013-05-24T00:00:00Z

struct Example {
  const char* name;
  S3Request request;
  const char* signature;
};

TEST(S3SignatureTest, AreThoseOfAws) {
  const std::string host = "examplebucket.s3.amazonaws.com";
  const S3Credentials credentials{
      "AKIA"
      "IOSFODNN7EXAMPLE",
      "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
  const Example examples[] = {
      {"range",
       {host, "/test.txt", {}, {{"range", "bytes=0-9"}}},
       "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
      {"query without a value",
       {host, "/", {{"lifecycle", ""}}, {}},
       "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
      {"list",
       {host, "/", {{"prefix", "J"}, {"max-keys", "2"}}, {}},
       "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
  };
  for (const Example& example : examples) {
    const auto headers = signed_headers(example.request, credentials, "us-east-1", kMay2013);
    EXPECT_TRUE(headers.back().ends_with(std::string(",Signature=") + example.signature))
        << example.name << ": " << headers.back();
  }
}

TEST(S3SignatureTest, SignsTheSessionTokenAndNothingWithoutCredentials) {
  const S3Request request{"h", "/k", {}, {{"range", "bytes=0-9"}}};
  const auto headers = signed_headers(request, {"id", "secret", "token"}, "eu-west-1", kMay2013);
  ASSERT_EQ(headers.size(), 5U);
  EXPECT_EQ(headers[0], "range: bytes=0-9");
  EXPECT_EQ(headers[2], "x-amz-date: 20130524T000000Z");
  EXPECT_EQ(headers[3], "x-amz-security-token: token");
  EXPECT_NE(headers[4].find("Credential=id/20130524/eu-west-1/s3/aws4_request,SignedHeaders=host;"
                            "range;x-amz-content-sha256;x-amz-date;x-amz-security-token,"),
            std::string::npos);
  EXPECT_EQ(headers[4].find("secret"), std::string::npos);
  EXPECT_EQ(signed_headers(request, {}, "eu-west-1", kMay2013),
            std::vector<std::string>{"range: bytes=0-9"});
}

TEST(S3SignatureTest, EncodesAsAwsDoes) {
  EXPECT_EQ(aws_encoded("a b/c~+=\xc3\xa9", true), "a%20b/c~%2B%3D%C3%A9");
  EXPECT_EQ(aws_encoded("a/b", false), "a%2Fb");
  EXPECT_EQ(aws_query({{"prefix", "a/b"}, {"list-type", "2"}}), "list-type=2&prefix=a%2Fb");
}

}  // namespace
}  // namespace accel
