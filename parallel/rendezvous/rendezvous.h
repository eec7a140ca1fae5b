// Rendezvous: the listening socket of rank 0's store, bound before any rank is started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/owned_fd.h"

namespace accel {

struct Rendezvous {
  std::string address;  ///< as passed to the ranks
  int64_t port = 0;
  OwnedFd listener;  ///< on machine 0 only; closed on exec unless the caller changes that
};

/// For the ranks of one machine: listens at loopback only. A port in use is replaced by a free one,
/// with a warning. Throws Error.
Rendezvous rendezvous_on_this_machine(std::optional<int64_t> port);

/// For machine 0 of several, at the `address` (or name) and `port` that all machines are given.
/// Throws Error (exit code 2) when it is not an address of this machine or the port is in use,
/// with the process that uses it if it is known. Port 0: a free one.
Rendezvous rendezvous_as_main_machine(const std::string& address, int64_t port);

/// For the other machines. Returns true when machine 0 accepts a connection, false when `stop_fd`
/// becomes readable (-1: never). Logs every 5 seconds. Throws Error: with exit code 2 for an
/// unknown name, with 6 after `seconds`.
bool wait_for_main_machine(const Rendezvous& main, int64_t seconds, int stop_fd = -1);

/// A connection to machine 0; none when it does not accept any. Throws Error (exit code 2) for an
/// unknown name.
OwnedFd connect_to_main_machine(const Rendezvous& main);

/// The address of a network interface of this machine, such as "eth0": IPv4 where it has one, else
/// IPv6. Throws Error (exit code 2) with the interfaces there are.
std::string interface_address(const std::string& name);

/// The process that listens at a port of this machine, "process 123 ('python3')"; "" if unknown.
std::string port_owner(int64_t port);

}  // namespace accel
