#include "data/store/aws_settings.h"

#include <filesystem>
#include <map>
#include <optional>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"

namespace accel {
namespace {

using Section = std::map<std::string, std::string>;

/// A section of an INI file; none without the file or the section.
std::optional<Section> section_of(const std::string& path, const std::string& name) {
  std::error_code error;
  if (path.empty() || !std::filesystem::is_regular_file(path, error)) return std::nullopt;
  const SharedBytes file = map_file(path);
  std::optional<Section> out;
  bool inside = false;
  std::string_view rest = as_text(file.view);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string line = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line.front() == '[' && line.back() == ']') {
      inside = trimmed(line.substr(1, line.size() - 2)) == name;
      if (inside && !out) out.emplace();
      continue;
    }
    const size_t equals = line.find('=');
    if (inside && equals != line.npos) {
      (*out)[ascii_lower(trimmed(line.substr(0, equals)))] = trimmed(line.substr(equals + 1));
    }
  }
  return out;
}

class Lookup {
 public:
  explicit Lookup(const EnvironmentLookup& environment) : environment_(environment) {
    const std::string given = variable("AWS_PROFILE");
    profile_ = given.empty() ? "default" : given;
    const std::string home = variable("HOME");
    const auto file = [&](const char* name, const char* fallback) {
      const std::string path = variable(name);
      return path.empty() && !home.empty() ? home + fallback : path;
    };
    const auto keys =
        section_of(file("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials"), profile_);
    const auto config = section_of(file("AWS_CONFIG_FILE", "/.aws/config"),
                                   profile_ == "default" ? profile_ : "profile " + profile_);
    if (config) settings_ = *config;
    if (keys) {
      for (const auto& [name, value] : *keys) settings_[name] = value;
    }
    is_known_ = keys || config;
    is_named_ = !given.empty();
  }

  std::string variable(const std::string& name) const { return environment_(name).value_or(""); }
  std::string setting(const std::string& name) const {
    const auto found = settings_.find(name);
    return found == settings_.end() ? "" : found->second;
  }
  /// The first of the variables that is set, else the profile's setting.
  std::string either(const char* first, const char* second, const char* name) const {
    for (const char* each : {first, second}) {
      if (std::string value = variable(each); !value.empty()) return value;
    }
    return setting(name);
  }

  S3Credentials credentials() const {
    S3Credentials out{variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"),
                      variable("AWS_SESSION_TOKEN")};
    if (out.access_key_id.empty() != out.secret_access_key.empty()) {
      throw DataError(text("of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY only {} is set",
                           out.empty() ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID"),
                      "set both, or neither to use a profile of ~/.aws/credentials");
    }
    if (!out.empty()) return out;
    if (is_named_ && !is_known_) {
      throw DataError(
          text("AWS_PROFILE is '{}', which is in neither the credentials nor the config "
               "file of AWS",
               profile_),
          "name a profile of ~/.aws/credentials, or set AWS_ACCESS_KEY_ID and "
          "AWS_SECRET_ACCESS_KEY");
    }
    out = {setting("aws_access_key_id"), setting("aws_secret_access_key"),
           setting("aws_session_token")};
    const bool whole = !out.access_key_id.empty() && !out.secret_access_key.empty();
    if (is_known_ && !whole && (is_named_ || !out.empty())) {
      throw DataError(text("the AWS profile '{}' has no pair of aws_access_key_id and "
                           "aws_secret_access_key",
                           profile_),
                      "export temporary keys: eval \"$(aws configure export-credentials --format "
                      "env)\"");
    }
    return whole ? out : S3Credentials{};
  }

 private:
  const EnvironmentLookup& environment_;
  std::string profile_;
  Section settings_;
  bool is_known_ = false, is_named_ = false;
};

}  // namespace

AwsSettings aws_settings(const EnvironmentLookup& environment) {
  const Lookup lookup(environment);
  AwsSettings out;
  out.credentials = lookup.credentials();
  out.region = lookup.either("AWS_REGION", "AWS_DEFAULT_REGION", "region");
  if (out.region.empty()) out.region = "us-east-1";
  out.endpoint = lookup.either("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "endpoint_url");
  while (out.endpoint.ends_with('/')) out.endpoint.pop_back();
  return out;
}

}  // namespace accel
