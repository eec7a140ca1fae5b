// Connections of Gloo beside a program that takes the place of a rank.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "core/base/owned_fd.h"
#include "parallel/c10d_group.h"

namespace accel::gloo_strangers_test {
namespace {

namespace fs = std::filesystem;

/// Ports of 127.0.0.1 at which this process listens.
std::vector<uint16_t> own_ports() {
  std::set<std::string> own;
  std::error_code gone;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
    const std::string target = fs::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) own.insert(target.substr(8, target.size() - 9));
  }
  std::vector<uint16_t> ports;
  std::ifstream table("/proc/self/net/tcp");
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::vector<std::string> word(10);
    for (std::string& item : word) words >> item;
    if (word[3] != "0A" || !own.contains(word[9]) || !word[1].starts_with("0100007F:")) continue;
    ports.push_back(static_cast<uint16_t>(std::stoul(word[1].substr(9), nullptr, 16)));
  }
  return ports;
}

/// Connects to a port under the number of each rank, as Gloo does, and leaves after `patience`.
void pretend_to_be_ranks(uint16_t port, uint64_t ranks, std::chrono::milliseconds patience) {
  std::vector<OwnedFd> connections;
  for (uint64_t number = 0; number < ranks; ++number) {
    OwnedFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) continue;
    if (::write(fd.get(), &number, sizeof number) == sizeof number) {
      connections.push_back(std::move(fd));
    }
  }
  std::this_thread::sleep_for(patience);
}

GroupOptions options_of(int64_t rank, int64_t world) {
  GroupOptions options;
  options.rank = options.global_rank = rank;
  options.world = world;
  options.host = "127.0.0.1";
  options.timeout = 20;
  return options;
}

/// Connects two ranks, of which the second one is late, and in the meantime a stranger to the first
/// one. What the first one says; the sum of 1 and 2 must arrive.
std::string connect_beside_stranger(std::chrono::milliseconds patience) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  testing::internal::CaptureStderr();
  {
    std::vector<std::jthread> threads;
    const auto rank = [&](int64_t number) {
      const BackendPtr backend = make_gloo_backend(store, options_of(number, 2));
      std::vector<at::Tensor> tensors = {at::full({3}, number + 1, at::kLong)};
      backend->allreduce(tensors)->wait();
      EXPECT_TRUE(tensors[0].eq(3).all().item<bool>());
    };
    threads.emplace_back(rank, 0);
    std::vector<uint16_t> ports;
    while ((ports = own_ports()).empty()) std::this_thread::yield();
    threads.emplace_back([&] { pretend_to_be_ranks(ports.front(), 2, patience); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    threads.emplace_back(rank, 1);
  }
  return testing::internal::GetCapturedStderr();
}

/// Gloo's own numbers decide which of two ranks waits for a connection: the stranger takes the
/// place of a rank in half of the attempts.
TEST(GlooStrangersTest, RanksConnectAgain) {
  const std::string again = "warning: rank 0 connects to the others again: ";
  for (const auto patience : {std::chrono::milliseconds(100), std::chrono::milliseconds(800)}) {
    bool repeated = false;
    for (int i = 0; i < 30 && !repeated && !HasFailure(); ++i) {
      repeated = connect_beside_stranger(patience).find(again) != std::string::npos;
    }
    EXPECT_TRUE(repeated) << patience.count() << " ms";
  }
}

}  // namespace
}  // namespace accel::gloo_strangers_test
