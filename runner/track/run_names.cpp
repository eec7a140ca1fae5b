#include "runner/track/run_names.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "core/utf8.h"

namespace accel {
namespace {

/// One part of a path, safe to be made.
std::string safe_part(std::string_view part) {
  std::string out;
  for (size_t at = 0; at < part.size();) {
    const size_t length = character_length(part, at);
    const auto byte = static_cast<unsigned char>(part[at]);
    const bool plain = length > 1 || (length == 1 && byte >= 0x20 && byte != 0x7f);
    out += plain ? part.substr(at, length) : "_";
    at += length == 0 ? 1 : length;
  }
  constexpr size_t kLongest = 200;  // file systems take 255 bytes
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
    const std::string part = safe_part(name.substr(0, end));
    if (!part.empty()) out += (out.empty() ? "" : "/") + part;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return out.empty() ? "_" : out;
}

}  // namespace accel
