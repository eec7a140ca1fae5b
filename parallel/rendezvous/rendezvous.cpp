#include "parallel/rendezvous/rendezvous.h"

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
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"

namespace accel {
namespace {

using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

constexpr auto kLoopbackAddress = "127.0.0.1";
constexpr auto kProgram = "('accel-run')";  // as port_owner() prints it

std::string endpoint_text(const std::string& address, int64_t port) {
  return text("'{}' port {}", address, port);
}

Addresses resolve(const std::string& name, int64_t port) {
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (error == 0) return Addresses(found, &::freeaddrinfo);
  const std::string why = error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error);
  throw Error(ExitCode::kRecipe,
              text("'main_process_ip' is '{}', which cannot be resolved: {}", name, why),
              "give the address of machine 0, or a name that all machines resolve");
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
  sockaddr_in6 address = {};  // the port of an IPv4 address is at the same place
  socklen_t size = sizeof address;
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin6_port);
}

/// " by process 1 ('a')"; empty if the process is unknown.
std::string by_owner(int64_t port) {
  const std::string owner = port_owner(port);
  return owner.empty() ? "" : " by " + owner;
}

[[noreturn]] void cannot_listen(const std::string& endpoint, int error) {
  throw Error(ExitCode::kOther, text("cannot listen at {}: {}", endpoint, std::strerror(error)));
}

[[noreturn]] void refuse_used_port(int64_t port) {
  const std::string owner = port_owner(port);
  if (owner.find(kProgram) != owner.npos) {
    throw Error(ExitCode::kRecipe,
                text("another accel-run is machine 0 at 'main_process_port' {}: {}", port, owner),
                "set another 'accelerator.machine_rank' on each machine; for two runs, give each "
                "its own port");
  }
  throw Error(ExitCode::kRecipe, text("'main_process_port' {} is in use{}", port, by_owner(port)),
              "stop that process, or give all machines another port");
}

void warn_of_port(int64_t port, int error, int64_t used) {
  warn(error == EADDRINUSE ? text("port {} is in use{}; using port {} for the rendezvous", port,
                                  by_owner(port), used)
                           : text("port {} cannot be bound: {}; using port {} for the rendezvous",
                                  port, std::strerror(error), used));
}

/// 0 after a successful connection within a second, else the errno.
int connect_error(const addrinfo& address, OwnedFd& socket) {
  socket.reset(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
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

int connect_error(const Addresses& addresses, OwnedFd& socket) {
  int error = 0;
  for (const addrinfo* address = addresses.get(); address; address = address->ai_next) {
    error = connect_error(*address, socket);
    if (error == 0) return 0;
  }
  return error;
}

}  // namespace

Rendezvous rendezvous_on_this_machine(std::optional<int64_t> port) {
  Rendezvous rendezvous;
  rendezvous.address = kLoopbackAddress;
  rendezvous.listener = listen_on_loopback(port.value_or(0));
  const int error = errno;
  if (!rendezvous.listener && port) {
    rendezvous.listener = listen_on_loopback(0);
    if (rendezvous.listener) warn_of_port(*port, error, port_of(rendezvous.listener));
  }
  if (!rendezvous.listener) cannot_listen(endpoint_text(kLoopbackAddress, port.value_or(0)), errno);
  rendezvous.port = port_of(rendezvous.listener);
  return rendezvous;
}

Rendezvous rendezvous_as_main_machine(const std::string& address, int64_t port) {
  const Addresses addresses = resolve(address, port);
  Rendezvous rendezvous = {address, port, OwnedFd()};
  for (const addrinfo* at = addresses.get(); at && !rendezvous.listener; at = at->ai_next) {
    rendezvous.listener = listen_at(*at);
  }
  const int error = errno;
  if (rendezvous.listener) {
    rendezvous.port = port_of(rendezvous.listener);
    return rendezvous;
  }
  if (error == EADDRNOTAVAIL) {
    throw Error(
        ExitCode::kRecipe,
        text("'main_process_ip' is '{}', which is not an address of this machine", address),
        "set 'accelerator.machine_rank' here: it is 0 only on the machine with that address");
  }
  if (error == EADDRINUSE) {
    refuse_used_port(port);
  }
  cannot_listen(endpoint_text(address, port), error);
}

bool wait_for_main_machine(const Rendezvous& main, int64_t seconds, int stop_fd) {
  constexpr int kRetryMilliseconds = 200;
  constexpr auto kLogInterval = std::chrono::seconds(5);
  const std::string endpoint = endpoint_text(main.address, main.port);
  const Addresses addresses = resolve(main.address, main.port);
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  auto next_log = Clock::now() + kLogInterval;
  for (;;) {
    OwnedFd probe;
    const int error = connect_error(addresses, probe);
    if (error == 0) return true;
    const auto now = Clock::now();
    if (now >= end) {
      throw Error(
          ExitCode::kTimeout,
          text("no connection to {} within {} s: {}", endpoint, seconds, std::strerror(error)),
          "start accel-run on machine 0 too, and open its port in the firewall; "
          "'join_timeout' is the time to wait");
    }
    if (now >= next_log) {
      const auto left = std::chrono::duration_cast<std::chrono::seconds>(end - now).count();
      say(text("waiting for machine 0 at {}, {} s left: {}", endpoint, left, std::strerror(error)));
      next_log += kLogInterval;
    }
    pollfd stop = {stop_fd, POLLIN, 0};
    if (::poll(&stop, 1, kRetryMilliseconds) > 0) return false;
  }
}

OwnedFd connect_to_main_machine(const Rendezvous& main) {
  OwnedFd socket;
  const int error = connect_error(resolve(main.address, main.port), socket);
  return error == 0 ? std::move(socket) : OwnedFd();
}

}  // namespace accel
