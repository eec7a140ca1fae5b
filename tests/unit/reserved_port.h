// Ports for tests of rendezvous.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

namespace accel {

/// A port of the loopback device that stays bound until the process ends. It refuses connections
/// until a socket with SO_REUSEADDR listens at it; the kernel gives it to no other process, whose
/// listeners a test would otherwise meet: Gloo takes any connection for one of a rank.
inline int64_t reserved_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(fd, any, size), 0);
  EXPECT_EQ(getsockname(fd, any, &size), 0);
  return ntohs(address.sin_port);
}

}  // namespace accel
