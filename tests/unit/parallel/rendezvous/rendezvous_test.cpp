#include "parallel/rendezvous/rendezvous.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <optional>
#include <thread>

#include "core/base/error.h"
#include "core/base/text.h"
#include "tests/unit/reserved_port.h"

namespace accel::rendezvous_test {
namespace {

/// Of what `act` throws: "code message | hint".
std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code())) + " " + error.what() + " | " +
           error.hint();
  }
  return "no error";
}

std::string bound_address(const OwnedFd& listener) {
  sockaddr_in address = {};
  socklen_t size = sizeof address;
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return inet_ntoa(address.sin_addr) + std::string(":") + std::to_string(ntohs(address.sin_port));
}

std::string this_process() {
  std::string name;
  std::getline(std::ifstream("/proc/self/comm"), name);
  return "process " + std::to_string(getpid()) + " ('" + name + "')";
}

double seconds_of(const std::function<void()>& act) {
  const auto start = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(RendezvousTest, OneMachineIsNotReachedFromOutside) {
  const Rendezvous point = rendezvous_on_this_machine(std::nullopt);
  EXPECT_GT(point.port, 0);
  EXPECT_EQ(point.address, "127.0.0.1");
  EXPECT_EQ(bound_address(point.listener), "127.0.0.1:" + std::to_string(point.port));
  EXPECT_EQ(fcntl(point.listener.get(), F_GETFD), FD_CLOEXEC);
  const Rendezvous other = rendezvous_on_this_machine(std::nullopt);
  EXPECT_NE(other.port, point.port);
}

TEST(RendezvousTest, AGivenPortIsTakenOrReplaced) {
  const int64_t port = reserved_port();
  const Rendezvous first = rendezvous_on_this_machine(port);
  EXPECT_EQ(first.port, port);
  testing::internal::CaptureStderr();
  const Rendezvous second = rendezvous_on_this_machine(port);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            text("warning: port {} is in use by {}; using port {} for the rendezvous\n", port,
                 this_process(), second.port));
  EXPECT_NE(second.port, port);
  EXPECT_EQ(bound_address(second.listener), "127.0.0.1:" + std::to_string(second.port));
}

/// Without the rights of root, as most users are.
class Unprivileged {
 public:
  Unprivileged() : before_(geteuid()) { EXPECT_EQ(seteuid(before_ == 0 ? 65534 : before_), 0); }
  ~Unprivileged() { EXPECT_EQ(seteuid(before_), 0); }

 private:
  uid_t before_;
};

TEST(RendezvousTest, APortOfTheSystemIsReplaced) {
  int first = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_unprivileged_port_start") >> first;
  if (first <= 1) GTEST_SKIP() << "skipped: every user may bind every port";
  testing::internal::CaptureStderr();
  std::optional<Rendezvous> point;
  {
    const Unprivileged user;
    point = rendezvous_on_this_machine(1);
  }
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      text("warning: port 1 cannot be bound: Permission denied; using port {} for the rendezvous\n",
           point->port));
}

TEST(RendezvousTest, WithoutASocketThereIsNoRendezvous) {
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none = {0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const std::string here = error_of([] { rendezvous_on_this_machine(std::nullopt); });
  const std::string main = error_of([] { rendezvous_as_main_machine("127.0.0.1", 29500); });
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(here, "1 cannot listen at '127.0.0.1' port 0: Too many open files | ");
  EXPECT_EQ(main, "1 cannot listen at '127.0.0.1' port 29500: Too many open files | ");
}

TEST(RendezvousTest, TheMainMachineTakesItsPortOrNothing) {
  const int64_t port = reserved_port();
  const Rendezvous point = rendezvous_as_main_machine("127.0.0.1", port);
  EXPECT_EQ(point.port, port);
  EXPECT_EQ(bound_address(point.listener), "127.0.0.1:" + std::to_string(port));
  const double seconds = seconds_of([&] {
    EXPECT_EQ(error_of([&] { rendezvous_as_main_machine("127.0.0.1", port); }),
              text("2 'main_process_port' {} is in use by {} | stop that process, or give all "
                   "machines another port",
                   port, this_process()));
  });
  EXPECT_LT(seconds, 60) << "a second when nothing else runs";
}

TEST(RendezvousTest, TwoLaunchersThatAreMachineZeroAreNamed) {
  char before[16] = {};
  prctl(PR_GET_NAME, before);
  prctl(PR_SET_NAME, "accel-run");
  const Rendezvous point = rendezvous_on_this_machine(std::nullopt);
  EXPECT_EQ(error_of([&] { rendezvous_as_main_machine("127.0.0.1", point.port); }),
            text("2 another accel-run is machine 0 at 'main_process_port' {}: process {} "
                 "('accel-run') | set another 'accelerator.machine_rank' on each machine; for two "
                 "runs, give each its own port",
                 point.port, getpid()));
  prctl(PR_SET_NAME, before);
}

TEST(RendezvousTest, ConnectionsOfAnEarlierRunDoNotHoldThePort) {
  int64_t port = 0;
  {
    const Rendezvous point = rendezvous_on_this_machine(std::nullopt);
    port = point.port;
    sockaddr_in address = {};
    socklen_t size = sizeof address;
    getsockname(point.listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
    const OwnedFd client(socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    OwnedFd accepted(accept(point.listener.get(), nullptr, nullptr));
    accepted.reset();  // who closes first has the port for a minute more
  }
  EXPECT_EQ(rendezvous_as_main_machine("127.0.0.1", port).port, port);
}

TEST(RendezvousTest, TheMainMachineMustHaveTheAddress) {
  EXPECT_EQ(error_of([] { rendezvous_as_main_machine("192.0.2.1", 29500); }),
            "2 'main_process_ip' is '192.0.2.1', which is not an address of this machine | "
            "set 'accelerator.machine_rank' here: it is 0 only on the machine with that address");
}

TEST(RendezvousTest, AnUnknownNameIsFinal) {
  const double seconds = seconds_of([] {
    for (const auto& act : {std::function<void()>([] { rendezvous_as_main_machine("no such", 1); }),
                            std::function<void()>([] {
                              wait_for_main_machine({"no such", 29500, OwnedFd()}, 600);
                            })}) {
      const std::string error = error_of(act);
      EXPECT_TRUE(error.starts_with("2 'main_process_ip' is 'no such', which cannot be resolved: "))
          << error;
      EXPECT_TRUE(
          error.ends_with(" | give the address of machine 0, or a name that all machines resolve"))
          << error;
    }
  });
  EXPECT_LT(seconds, 100);
}

TEST(RendezvousTest, TheOthersWaitUntilItAnswers) {
  const int64_t port = reserved_port();
  std::promise<void> answered;
  std::thread late([port, &answered] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const Rendezvous main = rendezvous_as_main_machine("127.0.0.1", port);
    answered.get_future().wait();
  });
  EXPECT_TRUE(wait_for_main_machine({"localhost", port, OwnedFd()}, 60));
  answered.set_value();
  late.join();
}

TEST(RendezvousTest, TheOthersDoNotWaitForEver) {
  const int64_t port = reserved_port();
  testing::internal::CaptureStdout();
  EXPECT_EQ(error_of([&] {
              wait_for_main_machine({"127.0.0.1", port, OwnedFd()}, 6);
            }),
            "6 no connection to '127.0.0.1' port " + std::to_string(port) +
                " within 6 s: Connection refused | start accel-run on machine 0 too, and open its "
                "port in the firewall; 'join_timeout' is the time to wait");
  // The time left is that of the machine: a second at least, since a line comes every 5 s.
  std::string said = testing::internal::GetCapturedStdout();
  const size_t left = said.find(" s left: ");
  ASSERT_TRUE(left != said.npos && left > 0) << said;
  EXPECT_TRUE(std::isdigit(said[left - 1])) << said;
  said[left - 1] = 'N';
  EXPECT_EQ(
      said,
      text("waiting for machine 0 at '127.0.0.1' port {}, N s left: Connection refused\n", port));
}

TEST(RendezvousTest, ASignalEndsTheWait) {
  const OwnedFd stop(eventfd(1, EFD_CLOEXEC));
  const int64_t port = reserved_port();
  EXPECT_FALSE(wait_for_main_machine({"127.0.0.1", port, OwnedFd()}, 600, stop.get()));
}

TEST(RendezvousTest, AFreePortHasNoOwner) {
  const int64_t port = reserved_port();
  EXPECT_EQ(port_owner(port), "");
}

TEST(RendezvousTest, AFreePortOfMachine0IsNamed) {
  const Rendezvous point = rendezvous_as_main_machine("127.0.0.1", 0);
  EXPECT_GT(point.port, 0);
  EXPECT_TRUE(connect_to_main_machine(point));
}

TEST(RendezvousTest, Machine0MayHaveAnIpv6Address) {
  std::optional<Rendezvous> point;
  try {
    point = rendezvous_as_main_machine("::1", 0);
  } catch (const Error&) {
    GTEST_SKIP() << "this machine has no IPv6";
  }
  EXPECT_GT(point->port, 0);
  EXPECT_TRUE(connect_to_main_machine(*point));
}

TEST(RendezvousTest, TheAddressOfAnInterface) {
  EXPECT_EQ(interface_address("lo"), "127.0.0.1");
  try {
    interface_address("nic0");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
    EXPECT_STREQ(error.what(),
                 "environment variable 'GLOO_SOCKET_IFNAME' is 'nic0', which is no interface of "
                 "this machine with an address");
    const std::string hint = error.hint();
    EXPECT_TRUE(hint.starts_with("set it to one of ") && hint.ends_with(", or unset it")) << hint;
    EXPECT_NE(hint.find("'lo'"), hint.npos) << hint;
  }
}

}  // namespace
}  // namespace accel::rendezvous_test
