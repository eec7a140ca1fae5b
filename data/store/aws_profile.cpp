#include "data/store/aws_profile.h"

#include <filesystem>
#include <optional>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"

namespace accel {
namespace {

using ProfileSection = std::map<std::string, std::string>;

/// A section of an INI file; none without the file or the section.
std::optional<ProfileSection> section_of(const std::string& path, const std::string& name) {
  std::error_code error;
  if (path.empty() || !std::filesystem::is_regular_file(path, error)) return std::nullopt;
  const SharedBytes file = map_file(path);
  std::optional<ProfileSection> out;
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

}  // namespace

AwsProfile::AwsProfile(const EnvironmentLookup& environment) : environment_(environment) {
  const std::string given = variable("AWS_PROFILE");
  name_ = given.empty() ? "default" : given;
  const auto file = [&](const char* name, const char* fallback) {
    const std::string path = variable(name);
    return path.empty() ? in_home(fallback) : path;
  };
  config_path_ = file("AWS_CONFIG_FILE", "/.aws/config");
  const auto keys = section_of(file("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials"), name_);
  const auto config = section_of(config_path_, name_ == "default" ? name_ : "profile " + name_);
  if (keys) keys_ = *keys;
  if (config) config_ = *config;
  is_named_ = !given.empty();
  if (is_named_ && !keys && !config) {
    throw DataError(text("AWS_PROFILE is '{}', which is in neither the credentials nor the config "
                         "file of AWS",
                         name_),
                    "name a profile of ~/.aws/credentials or ~/.aws/config, or unset AWS_PROFILE");
  }
}

std::string AwsProfile::variable(const std::string& name) const {
  return environment_(name).value_or("");
}

std::string AwsProfile::in_home(const std::string& path) const {
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + path;
}

std::string AwsProfile::setting(const std::string& name) const {
  for (const ProfileSection* section : {&keys_, &config_}) {
    const auto found = section->find(name);
    if (found != section->end()) return found->second;
  }
  return "";
}

std::string AwsProfile::setting_of_section(const std::string& section,
                                           const std::string& name) const {
  const auto found = section_of(config_path_, section);
  return found && found->contains(name) ? found->at(name) : "";
}

S3Credentials AwsProfile::static_keys(AwsFile file) const {
  const ProfileSection& section = file == AwsFile::kCredentials ? keys_ : config_;
  const auto value = [&](const char* name) {
    const auto found = section.find(name);
    return found == section.end() ? "" : found->second;
  };
  S3Credentials out{value("aws_access_key_id"), value("aws_secret_access_key"),
                    value("aws_session_token")};
  if (out.access_key_id.empty() != out.secret_access_key.empty()) {
    throw DataError(
        text("the AWS profile '{}' has only {} of aws_access_key_id and aws_secret_access_key",
             name_, out.empty() ? "aws_secret_access_key" : "aws_access_key_id"),
        "write both, or neither to use another source of credentials");
  }
  return out;
}

std::string AwsProfile::region() const {
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (std::string value = variable(name); !value.empty()) return value;
  }
  const std::string value = setting("region");
  return value.empty() ? "us-east-1" : value;
}

std::string AwsProfile::endpoint(const std::string& service) const {
  std::string out = variable("AWS_ENDPOINT_URL_" + service);
  if (out.empty()) out = variable("AWS_ENDPOINT_URL");
  if (out.empty()) out = setting("endpoint_url");
  while (out.ends_with('/')) out.pop_back();
  return out;
}

std::string AwsProfile::service_url(const std::string& service, const std::string& aws) const {
  const std::string given = endpoint(service);
  return given.empty() ? aws : given;
}

}  // namespace accel
