#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/rendezvous/rendezvous.h"

namespace accel {
namespace {

using Interfaces = std::unique_ptr<ifaddrs, void (*)(ifaddrs*)>;

Interfaces interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) == 0) return Interfaces(first, &::freeifaddrs);
  throw Error(ExitCode::kOther, text("cannot list network interfaces: {}", std::strerror(errno)));
}

/// The numeric address; "" for families other than IPv4 and IPv6.
std::string numeric(const sockaddr* address) {
  const bool four = address && address->sa_family == AF_INET;
  const bool six = address && address->sa_family == AF_INET6;
  if (!four && !six) return {};
  char text[NI_MAXHOST] = {};
  const socklen_t size = four ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  const int error = ::getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text : "";
}

}  // namespace

std::string interface_address(const std::string& name) {
  const Interfaces all = interfaces();
  std::vector<std::string> names;
  std::string four, six;
  for (const ifaddrs* each = all.get(); each; each = each->ifa_next) {
    if (std::find(names.begin(), names.end(), each->ifa_name) == names.end()) {
      names.emplace_back(each->ifa_name);
    }
    if (name != each->ifa_name || !each->ifa_addr) continue;
    std::string& found = each->ifa_addr->sa_family == AF_INET ? four : six;
    if (found.empty()) found = numeric(each->ifa_addr);
  }
  if (!four.empty()) return four;
  if (!six.empty()) return six;
  throw Error(ExitCode::kRecipe,
              text("environment variable 'GLOO_SOCKET_IFNAME' is '{}', which is no interface of "
                   "this machine with an address",
                   name),
              text("set it to one of {}, or unset it", quoted_list(names)));
}

}  // namespace accel
