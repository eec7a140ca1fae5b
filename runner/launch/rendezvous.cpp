#include "runner/launch/rendezvous.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/log.h"

namespace accel {
namespace {

using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

constexpr auto kLoopbackAddress = "127.0.0.1";

std::string place_text(const std::string& address, int64_t port) {
  return "'" + address + "' port " + std::to_string(port);
}

Addresses resolve(const std::string& name, int64_t port) {
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (error == 0) return Addresses(found, &::freeaddrinfo);
  const std::string why = error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error);
  throw Error(ExitCode::kRecipe, "'main_process_ip' is '" + name + "', which is not known: " + why,
              "give the address of machine 0, or a name that all machines know");
}

/// A listening socket, or none with errno set.
OwnedFd listen_at(const addrinfo& address) {
  OwnedFd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (socket) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (socket && ::bind(socket.get(), address.ai_addr, address.ai_addrlen) == 0 &&
      ::listen(socket.get(), SOMAXCONN) == 0) {
    return socket;
  }
  const int error = errno;
  socket.reset();
  errno = error;
  return socket;
}

OwnedFd listen_on_loopback(int64_t port) {
  return listen_at(*resolve(kLoopbackAddress, port));
}

int64_t port_of(const OwnedFd& listener) {
  sockaddr_in address = {};
  socklen_t size = sizeof address;
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

/// "port 29500 is in use by process 1 ('a')", as far as that can be seen.
std::string in_use(const std::string& place, int64_t port) {
  const std::string owner = port_owner(port);
  return place + " is in use" + (owner.empty() ? "" : " by " + owner);
}

[[noreturn]] void cannot_listen(const std::string& place, int error) {
  throw Error(ExitCode::kOther, "cannot listen at " + place + ": " + std::strerror(error));
}

/// 0 when somebody accepts a connection at the address within a second, or else why not.
int connect_error(const addrinfo& address) {
  const OwnedFd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno;
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd connected = {socket.get(), POLLOUT, 0};
  if (::poll(&connected, 1, 1000) <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

int connect_error(const Addresses& addresses) {
  int error = 0;
  for (const addrinfo* address = addresses.get(); address; address = address->ai_next) {
    error = connect_error(*address);
    if (error == 0) return 0;
  }
  return error;
}

}  // namespace

MeetingPoint meet_on_this_machine(std::optional<int64_t> port) {
  MeetingPoint point;
  point.address = kLoopbackAddress;
  point.listener = listen_on_loopback(port.value_or(0));
  const int error = errno;
  if (!point.listener && port) {
    const std::string place = "port " + std::to_string(*port);
    point.listener = listen_on_loopback(0);
    point.port = point.listener ? port_of(point.listener) : 0;
    const std::string why = error == EADDRINUSE ? in_use(place, *port)
                                                : place + " cannot be had: " + std::strerror(error);
    if (point.listener) warn(why + "; ranks meet at port " + std::to_string(point.port));
  }
  if (!point.listener) cannot_listen(place_text(kLoopbackAddress, port.value_or(0)), errno);
  point.port = port_of(point.listener);
  return point;
}

MeetingPoint meet_as_main_machine(const std::string& address, int64_t port) {
  const Addresses addresses = resolve(address, port);
  MeetingPoint point = {address, port, OwnedFd()};
  for (const addrinfo* at = addresses.get(); at && !point.listener; at = at->ai_next) {
    point.listener = listen_at(*at);
  }
  const int error = errno;
  if (point.listener) return point;
  if (error == EADDRNOTAVAIL) {
    throw Error(ExitCode::kRecipe, "'main_process_ip' is '" + address + "', not this machine's",
                "'machine_rank' is 0 only on the machine with that address");
  }
  if (error == EADDRINUSE) {
    throw Error(ExitCode::kRecipe, in_use("'main_process_port' " + std::to_string(port), port),
                "stop that, or give all machines another port");
  }
  cannot_listen(place_text(address, port), error);
}

bool wait_for_main_machine(const MeetingPoint& main, int64_t seconds, int stop_fd) {
  constexpr int kRetryMilliseconds = 200;
  constexpr auto kTellEvery = std::chrono::seconds(5);
  const std::string place = place_text(main.address, main.port);
  const Addresses addresses = resolve(main.address, main.port);
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  auto tell_next = Clock::now() + kTellEvery;
  for (;;) {
    const int error = connect_error(addresses);
    if (error == 0) return true;
    const auto now = Clock::now();
    if (now >= end) {
      throw Error(ExitCode::kTimeout,
                  "nothing answers at " + place + " after " + std::to_string(seconds) +
                      " s: " + std::strerror(error),
                  "start accel-run on machine 0 too, and let its port through the firewall; "
                  "'join_timeout' says how long to wait");
    }
    if (now >= tell_next) {
      const auto left = std::chrono::duration_cast<std::chrono::seconds>(end - now).count();
      say("waiting for machine 0 at " + place + ", " + std::to_string(left) +
          " s more: " + std::strerror(error));
      tell_next += kTellEvery;
    }
    pollfd stop = {stop_fd, POLLIN, 0};
    if (::poll(&stop, 1, kRetryMilliseconds) > 0) return false;
  }
}

}  // namespace accel
