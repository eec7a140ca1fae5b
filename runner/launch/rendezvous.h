// Where ranks meet: the socket that rank 0's store answers at, bound before any rank is started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runner/launch/owned_fd.h"

namespace accel {

struct MeetingPoint {
  std::string address;  ///< as the ranks are told
  int64_t port = 0;
  OwnedFd listener;  ///< closed on exec unless the caller changes that; on machine 0 alone
};

/// For ranks of one machine; nothing outside it can connect. A given port that is in use is
/// replaced by a free one, with a warning. Throws Error.
MeetingPoint meet_on_this_machine(std::optional<int64_t> port);

/// For machine 0 of several, whose `address` (or name) and `port` the others were told. Throws
/// Error (exit code 2) when that is not an address of this machine or the port is in use, naming by
/// whom where that can be seen.
MeetingPoint meet_as_main_machine(const std::string& address, int64_t port);

/// For the other machines. Returns once machine 0 answers, or false as soon as `stop_fd` can be
/// read
/// (-1: never). Says every 5 seconds what it waits for. Throws Error: with exit code 2, at once,
/// when the name is not known; with 6 when nothing has answered after `seconds`.
bool wait_for_main_machine(const MeetingPoint& main, int64_t seconds, int stop_fd = -1);

/// "process 123 ('python3')" of who listens at a port of this machine; empty when it cannot be
/// seen.
std::string port_owner(int64_t port);

}  // namespace accel
