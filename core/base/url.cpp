#include "core/base/url.h"

#include <algorithm>

#include "core/base/utf8.h"

namespace accel {
namespace {

constexpr std::string_view kEnds = " \t\r\n'\"<>";

/// The end of the user name and password that begin at `start`, where an '@' is; `start` without
/// any.
size_t end_of_credentials(const std::string& text, size_t start) {
  const size_t end = std::min(text.find_first_of(kEnds, start), text.size());
  const size_t path = std::min(text.find_first_of("/?#", start), end);
  size_t at = text.find_last_of('@', path);
  if (at != text.npos && at >= start) return at;
  // A password may contain a slash; the text before it is then not a port.
  const size_t colon = text.find(':', start);
  if (text[start] == '[' || colon >= path || colon + 1 == path) return start;
  const bool is_port = text.find_first_not_of("0123456789", colon + 1) >= path;
  at = text.find_last_of('@', end);
  return is_port || at == text.npos || at < start ? start : at;
}

}  // namespace

std::string origin_of_url(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == url.npos) return {};
  const size_t end = std::min(url.find_first_of("/?#", scheme + 3), url.size());
  const std::string host = url.substr(scheme + 3, end - scheme - 3);
  // Before an '@' are a user name and a password.
  return url.substr(0, scheme + 3) + host.substr(host.rfind('@') + 1);
}

std::string printable_url(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == url.npos) return printable(url);
  const size_t path = std::min(url.find_first_of("/?#", scheme + 3), url.size());
  const size_t end = std::max(path, std::min(url.find_first_of("?#", path), url.size()));
  return printable(origin_of_url(url) + url.substr(path, end - path));
}

std::string without_passwords(const std::string& text) {
  std::string out;
  size_t done = 0;
  for (size_t scheme = text.find("://"); scheme != text.npos; scheme = text.find("://", done)) {
    const size_t start = scheme + 3;
    const size_t end = end_of_credentials(text, start);
    out.append(text, done, start - done);
    if (end > start) out += "***";
    done = end;
  }
  return out.append(text, done);
}

}  // namespace accel
