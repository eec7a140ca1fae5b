#include "runner/launch/rendezvous.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "core/error.h"

namespace accel {
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
  const MeetingPoint point = meet_on_this_machine(std::nullopt);
  EXPECT_GT(point.port, 0);
  EXPECT_EQ(point.address, "127.0.0.1");
  EXPECT_EQ(bound_address(point.listener), "127.0.0.1:" + std::to_string(point.port));
  EXPECT_EQ(fcntl(point.listener.get(), F_GETFD), FD_CLOEXEC);
  const MeetingPoint other = meet_on_this_machine(std::nullopt);
  EXPECT_NE(other.port, point.port);
}

TEST(RendezvousTest, AGivenPortIsTakenOrReplaced) {
  int64_t port = 0;
  { port = meet_on_this_machine(std::nullopt).port; }
  const MeetingPoint first = meet_on_this_machine(port);
  EXPECT_EQ(first.port, port);
  testing::internal::CaptureStderr();
  const MeetingPoint second = meet_on_this_machine(port);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: port " + std::to_string(port) + " is in use by " + this_process() +
                "; ranks meet at port " + std::to_string(second.port) + "\n");
  EXPECT_NE(second.port, port);
  EXPECT_EQ(bound_address(second.listener), "127.0.0.1:" + std::to_string(second.port));
}

TEST(RendezvousTest, TheMainMachineTakesItsPortOrNothing) {
  int64_t port = 0;
  { port = meet_on_this_machine(std::nullopt).port; }
  const MeetingPoint point = meet_as_main_machine("127.0.0.1", port);
  EXPECT_EQ(point.port, port);
  EXPECT_EQ(bound_address(point.listener), "127.0.0.1:" + std::to_string(port));
  const double seconds = seconds_of([&] {
    EXPECT_EQ(error_of([&] { meet_as_main_machine("127.0.0.1", port); }),
              "2 'main_process_port' " + std::to_string(port) + " is in use by " + this_process() +
                  " | stop that, or give all machines another port");
  });
  EXPECT_LT(seconds, 10) << "a second when nothing else runs";
}

TEST(RendezvousTest, ConnectionsOfAnEarlierRunDoNotHoldThePort) {
  int64_t port = 0;
  {
    const MeetingPoint point = meet_on_this_machine(std::nullopt);
    port = point.port;
    sockaddr_in address = {};
    socklen_t size = sizeof address;
    getsockname(point.listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
    const OwnedFd client(socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    OwnedFd accepted(accept(point.listener.get(), nullptr, nullptr));
    accepted.reset();  // who closes first has the port for a minute more
  }
  EXPECT_EQ(meet_as_main_machine("127.0.0.1", port).port, port);
}

TEST(RendezvousTest, TheMainMachineMustHaveTheAddress) {
  EXPECT_EQ(error_of([] { meet_as_main_machine("192.0.2.1", 29500); }),
            "2 'main_process_ip' is '192.0.2.1', not this machine's | 'machine_rank' is 0 only on "
            "the machine with that address");
}

TEST(RendezvousTest, AnUnknownNameIsFinal) {
  const double seconds = seconds_of([] {
    for (const auto& act : {std::function<void()>([] { meet_as_main_machine("no such", 1); }),
                            std::function<void()>([] {
                              wait_for_main_machine({"no such", 29500, OwnedFd()}, 600);
                            })}) {
      const std::string error = error_of(act);
      EXPECT_TRUE(error.starts_with("2 'main_process_ip' is 'no such', which is not known: "))
          << error;
      EXPECT_TRUE(
          error.ends_with(" | give the address of machine 0, or a name that all machines know"))
          << error;
    }
  });
  EXPECT_LT(seconds, 100);
}

TEST(RendezvousTest, TheOthersWaitUntilItAnswers) {
  int64_t port = 0;
  { port = meet_on_this_machine(std::nullopt).port; }
  std::thread late([port] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const MeetingPoint main = meet_as_main_machine("127.0.0.1", port);
    std::this_thread::sleep_for(std::chrono::seconds(2));
  });
  EXPECT_TRUE(wait_for_main_machine({"localhost", port, OwnedFd()}, 60));
  late.join();
}

TEST(RendezvousTest, TheOthersDoNotWaitForEver) {
  int64_t port = 0;
  { port = meet_on_this_machine(std::nullopt).port; }
  testing::internal::CaptureStdout();
  EXPECT_EQ(error_of([&] {
              wait_for_main_machine({"127.0.0.1", port, OwnedFd()}, 6);
            }),
            "6 nothing answers at '127.0.0.1' port " + std::to_string(port) +
                " after 6 s: Connection refused | start accel-run on machine 0 too, and let its "
                "port through the firewall; 'join_timeout' says how long to wait");
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(
      said.starts_with("waiting for machine 0 at '127.0.0.1' port " + std::to_string(port) + ", "))
      << said;
  EXPECT_TRUE(said.ends_with(" s more: Connection refused\n")) << said;
}

TEST(RendezvousTest, ASignalEndsTheWait) {
  const OwnedFd stop(eventfd(1, EFD_CLOEXEC));
  int64_t port = 0;
  { port = meet_on_this_machine(std::nullopt).port; }
  EXPECT_FALSE(wait_for_main_machine({"127.0.0.1", port, OwnedFd()}, 600, stop.get()));
}

TEST(RendezvousTest, AFreePortHasNoOwner) {
  int64_t port = 0;
  { port = meet_on_this_machine(std::nullopt).port; }
  EXPECT_EQ(port_owner(port), "");
}

}  // namespace
}  // namespace accel
