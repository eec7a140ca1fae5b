// Collectives that hang on a device: what is reported, when, and when not.
#include "parallel/failure/hang_watch.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "core/base/environment.h"
#include "core/base/text.h"
#include "parallel/failure/lost_ranks.h"
#include "parallel/mesh.h"
#include "tests/unit/parallel/failure/watched_ranks.h"

namespace accel::hang_watch_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kWait = "waited longer than 'accelerator.timeout', N s, at step 7, in ";

/// Every rank calls 'weights', then rank 0 alone 'gradients', which hangs.
void leave_rank_0_alone(Communicator& group) {
  group.all_reduce(on_device(kCompletes), ReduceOp::kSum, "weights");
  if (group.rank() == 0) group.all_reduce(on_device(kHangs), ReduceOp::kSum, "gradients");
}

TEST(HangWatchTest, TheRankThatHasNotCalledItIsNamedOnEveryRank) {
  HangReports reports;
  const auto start = std::chrono::steady_clock::now();
  join_each(watched_requests(2, reports), [&](Communicator& group) {
    leave_rank_0_alone(group);
    reports.await(2);
  });
  // Timeout, a tick and the exchange; more on a busy machine.
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(60));
  ASSERT_EQ(reports.errors().size(), 2U);
  for (const auto& [rank, error] : reports.errors()) {
    EXPECT_EQ(error.what(),
              text("rank 0 {}collective 2 'gradients' (all-reduce, 16 bytes): rank 1 on host '{}' "
                   "has not called it, its last is collective 1 'weights' (all-reduce, 8 bytes) at "
                   "step 7",
                   kWait, host_name()));
    EXPECT_EQ(error.hint(),
              "the logs of these ranks have the cause; if they need more time, raise the timeout");
    EXPECT_EQ(error.code(), ExitCode::kTimeout);
  }
}

TEST(HangWatchTest, SeveralRanksAreNamedAndThoseThatWaitTooAreNot) {
  HangReports reports;
  std::vector<JoinRequest> requests = watched_requests(12, reports);
  for (JoinRequest& request : requests) {
    request.axes = [](const GroupShape&) { return std::string("dp"); };
  }
  join_each(requests, [&](Communicator& group) {
    if (group.rank() < 2) group.all_reduce(on_device(kHangs), ReduceOp::kSum, "gradients");
    reports.await(12);
  });
  for (int64_t rank = 0; rank < 12; ++rank) {
    const std::string found = reports.text(rank);
    for (const int64_t missing : {2, 3, 9}) {
      EXPECT_NE(found.find(text("rank {} on host '{}' has not called it, its last is collective 0 "
                                "'devices' (connection, along dp) at step 7; ",
                                missing, host_name())),
                found.npos)
          << found;
    }
    EXPECT_TRUE(found.ends_with("; and 2 more ranks")) << found;
  }
}

TEST(HangWatchTest, WhenAllRanksHaveCalledItTheNetworkIsAtFault) {
  HangReports reports;
  join_each(watched_requests(2, reports), [&](Communicator& group) {
    group.broadcast(on_device(kHangs), 1, "weights");
    reports.await(2);
  });
  ASSERT_EQ(reports.errors().size(), 2U);
  EXPECT_EQ(reports.text(0), reports.text(1));
  const std::string rest =
      text(" {}collective 1 'weights' (broadcast, 16 bytes): all ranks have called it", kWait);
  EXPECT_TRUE(reports.text(0) == "rank 0" + rest || reports.text(0) == "rank 1" + rest)
      << reports.text(0);
  EXPECT_EQ(reports.errors().at(0).hint(),
            "check the GPUs and the network between them: set NCCL_DEBUG=INFO in the environment "
            "for details");
}

TEST(HangWatchTest, ARankThatHasCalledAnotherCollectiveIsNamed) {
  HangReports reports;
  join_each(watched_requests(2, reports), [&](Communicator& group) {
    if (group.rank() == 0) group.all_reduce(on_device(kHangs), ReduceOp::kSum, "gradients");
    if (group.rank() == 1) group.all_reduce(on_device(kCompletes), ReduceOp::kSum, "loss");
    reports.await(2);
  });
  EXPECT_EQ(reports.text(0),
            text("rank 0 {}collective 1 'gradients' (all-reduce, 16 bytes): rank 1 on host '{}' "
                 "has called collective 1 'loss' (all-reduce, 8 bytes) at step 7 instead",
                 kWait, host_name()));
}

TEST(HangWatchTest, TheAxisOfTheGroupAndThePlacesOfRanksAreNamed) {
  HangReports reports;
  std::vector<JoinRequest> requests = watched_requests(4, reports);
  MeshSizes sizes;
  sizes.replicate = sizes.tensor = 2;
  for (JoinRequest& request : requests) {
    request.axes = [sizes](const GroupShape& group) { return axes_of(sizes, group); };
    for (int64_t rank = 0; rank < 4; ++rank) request.places.push_back(mesh_place(sizes, rank));
  }
  join_each(requests, [&](Communicator& world) {
    const std::unique_ptr<Communicator> tensor = world.split({{0, 1}, {2, 3}});
    world.all_reduce(on_device(kCompletes), ReduceOp::kSum, "loss");
    if (world.rank() == 2) tensor->all_reduce(on_device(kHangs), ReduceOp::kSum, "activations");
    reports.await(4);
  });
  for (int64_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(
        reports.text(rank),
        text("rank 2 (dp_replicate 1, tp 0) {}collective 1 'activations' (all-reduce, 16 bytes, "
             "along tp): rank 3 (dp_replicate 1, tp 1) on host '{}' has not called it, its last is "
             "collective 1 'loss' (all-reduce, 8 bytes, along dp_replicate x tp) at step 7",
             kWait, host_name()));
  }
}

TEST(HangWatchTest, MessagesNameTheirRanks) {
  for (const bool coalesces : {false, true}) {
    HangReports reports;
    const auto requests = watched_requests(2, reports, &completes_unless_it_hangs, coalesces);
    join_each(requests, [&](Communicator& group) {
      group.all_reduce(on_device(kCompletes), ReduceOp::kSum, "loss");
      if (group.rank() == 0) group.receive(on_device(kHangs), 1, "activations");
      reports.await(2);
    });
    const std::string what = coalesces
                                 ? "collective 3 'activations' (messages with rank 1, 16 bytes)"
                                 : "collective 2 'activations' (receive from rank 1, 16 bytes)";
    EXPECT_EQ(reports.text(1), text("rank 0 {}{}: rank 1 on host '{}' last called collective 1 "
                                    "'loss' (all-reduce, 8 bytes) at step 7",
                                    kWait, what, host_name()));
  }
}

/// Their numbers differ between the ranks of a pipeline.
TEST(HangWatchTest, MessagesAreNotComparedWithCollectives) {
  HangReports reports;
  join_each(watched_requests(2, reports), [&](Communicator& group) {
    if (group.rank() == 0) group.all_reduce(on_device(kHangs), ReduceOp::kSum, "loss");
    for (int i = 0; i < 3 && group.rank() == 1; ++i) {
      group.receive(on_device(kCompletes), 0, "activations");
    }
    reports.await(2);
  });
  EXPECT_EQ(reports.text(0),
            text("rank 0 {}collective 1 'loss' (all-reduce, 16 bytes): rank 1 on host '{}' has not "
                 "called it, its last is collective 3 'activations' (receive from rank 0, 8 bytes) "
                 "at step 7",
                 kWait, host_name()));
}

TEST(HangWatchTest, ARankThatHasEndedDoesNotAnswer) {
  HangReports reports;
  join_each(watched_requests(2, reports), [&](Communicator& group) {
    if (group.rank() == 1) throw std::runtime_error("left");
    group.all_reduce(on_device(kHangs), ReduceOp::kSum, "gradients");
    reports.await(1);
  });
  EXPECT_EQ(reports.text(0),
            text("rank 0 {}collective 1 'gradients' (all-reduce, 16 bytes): rank 1 on host '{}' "
                 "does not answer",
                 kWait, host_name()));
  EXPECT_EQ(reports.text(1), "");
}

/// As cudaEventQuery may, while the main thread synchronizes with the device.
TEST(HangWatchTest, AQueryThatBlocksIsAHangToo) {
  HangReports reports;
  const auto is_over = std::make_shared<std::atomic<bool>>(false);
  const DeviceRule blocks = [is_over](int64_t elements) {
    while (elements == kHangs && !*is_over) std::this_thread::sleep_for(milliseconds(5));
    return true;
  };
  join_each(watched_requests(2, reports, blocks), [&](Communicator& group) {
    leave_rank_0_alone(group);
    reports.await(2);
  });
  *is_over = true;
  EXPECT_TRUE(reports.text(1).starts_with(text("rank 0 {}collective 2 'gradients' ", kWait)))
      << reports.text(1);
}

/// As a call of NCCL does when the queue of the device is full, or another rank does not connect.
TEST(HangWatchTest, ACallThatDoesNotReturnIsAHangToo) {
  HangReports reports;
  std::vector<JoinRequest> requests = watched_requests(2, reports);
  requests[0].device_backend = [&, make = requests[0].device_backend](const StorePtr& store,
                                                                      const GroupOptions& options) {
    reports.await(2);
    return make(store, options);
  };
  join_each(requests, [&](Communicator&) { reports.await(2); });
  EXPECT_EQ(reports.text(1),
            "rank 0 waited longer than 'accelerator.timeout', N s, at step 7, in "
            "collective 0 'devices' (connection): all ranks have called it");
}

TEST(HangWatchTest, CollectivesThatCompleteAreNotReported) {
  HangReports reports;
  join_each(watched_requests(2, reports), [&](Communicator& group) {
    const auto end = std::chrono::steady_clock::now() + milliseconds(2500);
    while (std::chrono::steady_clock::now() < end) {
      group.all_reduce(on_device(kCompletes), ReduceOp::kSum, "gradients");
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  EXPECT_TRUE(reports.errors().empty()) << reports.text(0);
}

/// Each takes most of the timeout, all together take three times as long.
TEST(HangWatchTest, ASlowCollectiveIsNotReported) {
  HangReports reports;
  std::atomic<bool> is_done = false;
  const DeviceRule rule = [&is_done](int64_t) { return is_done.load(); };
  join_each(watched_requests(2, reports, rule), [&](Communicator& group) {
    for (int i = 0; i < 3; ++i) {
      group.barrier("next");
      is_done = false;
      group.barrier("none is done");
      group.all_reduce(on_device(kHangs), ReduceOp::kSum, "gradients");
      std::this_thread::sleep_for(milliseconds(600));
      is_done = true;
      std::this_thread::sleep_for(milliseconds(400));  // the watch has seen it
    }
  });
  EXPECT_TRUE(reports.errors().empty()) << reports.text(0);
}

/// A store whose process is stopped.
class SilentStore final : public c10d::HashStore {
 public:
  bool check(const std::vector<std::string>& /*keys*/) override {
    std::this_thread::sleep_for(seconds(15));
    return false;
  }
  int64_t add(const std::string& /*key*/, int64_t /*value*/) override {
    std::this_thread::sleep_for(seconds(15));
    return 0;
  }
};

HangWatch::Options alone(const StorePtr& store, HangReports& reports, int64_t rank = 1) {
  const auto on_hang = [&reports, rank](const Error& error) { reports.add(rank, error); };
  const auto ranks = std::make_shared<LostRanks>(store, rank, 2, true, std::vector<std::string>());
  return {.timeout = 1,
          .on_hang = on_hang,
          .report = {.rank = rank, .world = 2, .store = store, .of_rank_0 = true, .ranks = ranks}};
}

TEST(HangWatchTest, AStoreThatDoesNotAnswerIsARankThatDoesNot) {
  HangReports reports;
  const StorePtr store = c10::make_intrusive<SilentStore>();
  HangWatch watch(alone(store, reports));
  const auto log = watch.add_group({"world", "", {0, 1}});
  log->called({.operation = "all-reduce", .purpose = "gradients", .bytes = 8, .on_device = true}, 3,
              7);
  log->started(c10::make_intrusive<DeviceWork>([] { return false; }));
  reports.await(1);
  EXPECT_EQ(reports.text(1), text("rank 1 {}collective 3 'gradients' (all-reduce, 8 bytes): rank 0 "
                                  "does not answer",
                                  kWait));
  EXPECT_EQ(reports.errors().at(1).hint(),
            "check that the others run and that their network works, or raise the timeout");
}

/// A store whose process ends after a rank has reported a hang.
class EndedStore final : public c10d::HashStore {
 public:
  bool check(const std::vector<std::string>& /*keys*/) override { return true; }
  void set(const std::string& /*key*/, const std::vector<uint8_t>& /*value*/) override {
    throw std::runtime_error("Connection reset by peer");
  }
};

TEST(HangWatchTest, AStoreThatEndsIsARankThatDoesNotAnswer) {
  HangReports reports;
  HangWatch watch(alone(c10::make_intrusive<EndedStore>(), reports));
  reports.await(1);
  EXPECT_EQ(reports.text(1),
            "rank 1 was asked about a collective that hangs: rank 0 does not answer");
}

TEST(HangWatchTest, ARankWithoutCollectivesAnswersToo) {
  HangReports reports;
  const StorePtr store = c10::make_intrusive<c10d::HashStore>();
  HangWatch watch(alone(store, reports, 0)), other(alone(store, reports, 1));
  const auto log = watch.add_group({"world", "", {0, 1}});
  log->called({.operation = "all-reduce", .purpose = "gradients", .on_device = true}, 1, 7);
  reports.await(2);
  EXPECT_EQ(
      reports.text(1),
      text("rank 0 {}collective 1 'gradients' (all-reduce): rank 1 has not called any", kWait));
}

/// A group that its owner has dropped is not watched any more.
TEST(HangWatchTest, AGroupThatIsGoneIsNotReported) {
  HangReports reports;
  {
    HangWatch watch(alone(c10::make_intrusive<c10d::HashStore>(), reports));
    auto log = watch.add_group({"world", "", {0, 1}});
    log->called({.operation = "all-reduce", .purpose = "gradients", .on_device = true}, 1, 0);
    log.reset();
    std::this_thread::sleep_for(milliseconds(1800));
  }  // a report would have ended
  EXPECT_TRUE(reports.errors().empty()) << reports.text(1);
}

/// Stops this process for longer than the timeout; the collective completes when it continues.
[[noreturn]] void stop_during_a_collective() {
  HangReports reports;
  const StorePtr store = c10::make_intrusive<c10d::HashStore>();
  HangWatch watch(alone(store, reports));
  const auto log = watch.add_group({"world", "", {0, 1}});
  log->called({.operation = "all-reduce", .purpose = "gradients", .on_device = true}, 1, 0);
  std::atomic<int> queries = 0;
  log->started(c10::make_intrusive<DeviceWork>([&] { return ++queries > 2; }));
  while (queries == 0) std::this_thread::sleep_for(milliseconds(1));
  if (::fork() == 0) {
    std::this_thread::sleep_for(seconds(3));
    ::kill(::getppid(), SIGCONT);
    ::_exit(0);
  }
  ::raise(SIGSTOP);
  std::this_thread::sleep_for(milliseconds(1500));
  ::_exit(reports.errors().empty() && queries > 2 ? 0 : 1);
}

TEST(HangWatchTest, TheTimeOfAStoppedProcessDoesNotCount) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(stop_during_a_collective(), testing::ExitedWithCode(0), "");
}

/// Two ranks as processes, of which rank 0 blocks in a collective that hangs. Prints their ends.
[[noreturn]] void run_processes(bool kills_rank_1) {
  HangReports reports;
  std::vector<JoinRequest> requests = watched_requests(2, reports);
  pid_t ranks[2];
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank] = ::fork();
    if (ranks[rank] != 0) continue;
    JoinRequest& request = requests[static_cast<size_t>(rank)];
    request.on_hang = [](const Error& error) { ::_exit(static_cast<int>(error.code())); };
    const std::unique_ptr<Communicator> group = join(request);
    leave_rank_0_alone(*group);
    if (rank == 1 && kills_rank_1) ::raise(SIGKILL);
    while (true) ::pause();  // as a synchronization with the device
  }
  for (const pid_t rank : ranks) {
    int status = 0;
    ::waitpid(rank, &status, 0);
    std::fprintf(stderr, "%d ", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  ::_exit(0);
}

TEST(HangWatchTest, EveryProcessEndsWithTheExitCodeOfATimeout) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_processes(false), testing::ExitedWithCode(0), "6 6 $");
  EXPECT_EXIT(run_processes(true), testing::ExitedWithCode(0), "6 -9 $");
}

}  // namespace
}  // namespace accel::hang_watch_test
