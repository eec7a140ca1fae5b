#include "track/run_names.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <random>

#include "core/base/utf8.h"

namespace accel {
namespace {

std::string safe_component(std::string_view part) {
  std::string out;
  for (size_t at = 0; at < part.size();) {
    const size_t length = character_length(part, at);
    const auto byte = static_cast<unsigned char>(part[at]);
    const bool plain = length > 1 || (length == 1 && byte >= 0x20 && byte != 0x7f);
    out += plain ? part.substr(at, length) : "_";
    at += length == 0 ? 1 : length;
  }
  constexpr size_t kLongest = 200;  // file systems allow 255 bytes
  if (out.size() > kLongest) out.resize(kLongest);
  if (out == "." || out == "..") out.assign(out.size(), '_');
  return out;
}

}  // namespace

double seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

int64_t milliseconds_since_1970() {
  return static_cast<int64_t>(seconds_since_1970() * 1e3);
}

std::string utc_now(const char* format) {
  const auto seconds = static_cast<std::time_t>(seconds_since_1970());
  std::tm fields{};
  gmtime_r(&seconds, &fields);
  char text[32];
  return {text, std::strftime(text, sizeof text, format, &fields)};
}

std::string dated_name(double start_time, const std::string& id) {
  const auto seconds = static_cast<std::time_t>(start_time);
  std::tm fields{};
  localtime_r(&seconds, &fields);
  char text[32];
  const size_t length = std::strftime(text, sizeof text, "%Y%m%d_%H%M%S", &fields);
  return std::string(text, length) + '-' + id;
}

std::string random_name(size_t length, std::string_view alphabet) {
  std::random_device device;
  std::uniform_int_distribution<size_t> letter(0, alphabet.size() - 1);
  std::string name;
  for (size_t i = 0; i < length; ++i) name += alphabet[letter(device)];
  return name;
}

std::string random_hex32() {
  return random_name(32, "0123456789abcdef");
}

std::string safe_path(std::string_view name) {
  std::string out;
  while (!name.empty()) {
    const size_t end = std::min(name.find('/'), name.size());
    const std::string part = safe_component(name.substr(0, end));
    if (!part.empty()) out += (out.empty() ? "" : "/") + part;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return out.empty() ? "_" : out;
}

std::string id_text(const TrackerIdMap& ids, const std::string& key) {
  const auto found = ids.find(key);
  return found == ids.end() ? "" : found->second;
}

uint64_t id_number(const TrackerIdMap& ids, const std::string& key) {
  return std::strtoull(id_text(ids, key).c_str(), nullptr, 10);
}

}  // namespace accel
