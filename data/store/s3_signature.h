// AWS Signature Version 4 for requests without a body.
#pragma once

#include <ctime>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace accel {

struct S3Credentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  ///< empty: none

  bool empty() const { return access_key_id.empty(); }
};

/// A GET request. `path` and `query` are not yet percent-encoded.
struct S3Request {
  std::string host;
  std::string path;
  std::map<std::string, std::string> query = {};
  std::map<std::string, std::string> headers = {};  ///< names in lower case
};

/// Percent-encoded as AWS does; `keep_slashes`: of a path.
std::string aws_encoded(std::string_view text, bool keep_slashes);
/// "a=1&b=2", encoded and sorted.
std::string aws_query(const std::map<std::string, std::string>& query);

/// The headers of the request, "name: value", with its signature for service s3 of `region` at
/// `now`. Without credentials it is not signed.
std::vector<std::string> signed_headers(const S3Request& request, const S3Credentials& credentials,
                                        const std::string& region, std::time_t now);

}  // namespace accel
