// Groups of ranks inside one test process: a thread for each.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "parallel/join.h"

namespace accel {

/// PyTorch's flight recorder is one for the whole process and takes one group's word at a time.
inline const int no_flight_recorder = setenv("TORCH_FR_BUFFER_SIZE", "0", 1);

/// gloo writes to the sockets of ranks that are gone. The program ignores the signal as well.
inline const auto no_broken_pipe_signal = std::signal(SIGPIPE, SIG_IGN);

/// In seconds. It ends what would never end, on a busy machine too.
constexpr double kPatience = 300;

/// A listening socket on a free port of the loopback device.
struct Listener {
  Listener() : fd(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(fd, any, size), 0);
    EXPECT_EQ(listen(fd, 64), 0);
    EXPECT_EQ(getsockname(fd, any, &size), 0);
    port = ntohs(address.sin_port);
  }
  int fd;
  int port = 0;
};

/// Requests of `world` ranks that meet at one store; the first one serves it.
inline std::vector<JoinRequest> requests_of(int64_t world) {
  const Listener listener;
  std::vector<JoinRequest> requests(static_cast<size_t>(world));
  for (int64_t rank = 0; rank < world; ++rank) {
    JoinRequest& request = requests[static_cast<size_t>(rank)];
    request.rank = rank;
    request.world = world;
    request.port = listener.port;
    if (rank == 0) request.listen_fd = listener.fd;
    request.join_timeout = kPatience;
    request.timeout = kPatience;
    request.recipe = "recipe";
    request.build = "build";
  }
  return requests;
}

/// Runs `body` for each request in a separate thread. What each threw, "" where it did not.
inline std::vector<std::string> join_each(
    const std::vector<JoinRequest>& requests,
    const std::function<void(Communicator&)>& body = [](Communicator&) {}) {
  std::vector<std::string> errors(requests.size());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < requests.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          const std::unique_ptr<Communicator> group = join(requests[i]);
          body(*group);
          group->barrier("end of the test");
        } catch (const std::exception& error) {
          errors[i] = error.what();
        }
      });
    }
  }
  return errors;
}

/// Runs `body` on `world` ranks, none of which may throw.
inline void on_ranks(int64_t world, const std::function<void(Communicator&)>& body) {
  for (const std::string& error : join_each(requests_of(world), body)) EXPECT_EQ(error, "");
}

}  // namespace accel
