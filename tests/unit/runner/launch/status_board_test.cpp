#include "runner/launch/status_board.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <thread>

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/rendezvous/launcher_channel.h"

namespace accel::status_board_test {
namespace {

TEST(StatusBoardTest, AnEmptySlotSaysSo) {
  const Board board(2);
  const RankStatus status = board.read(1);
  EXPECT_EQ(status.pid, 0);
  EXPECT_EQ(status.step, -1);
  EXPECT_EQ(status.sequence, -1);
  EXPECT_FALSE(status.inside);
  EXPECT_EQ(status.collective, "");
  EXPECT_EQ(status.phase, "");
  EXPECT_EQ(status.heartbeat_ns, 0);
  EXPECT_FALSE(status.failed);
}

TEST(StatusBoardTest, TheLauncherReadsWhatARankWrote) {
  const Board board(2);
  BoardWriter first(board.fd(), 0), second(board.fd(), 1);
  const int64_t before = steady_now_ns();
  second.step(3);
  second.phase("forward");
  second.enter("gradients 2", 41);
  RankStatus status = board.read(1);
  EXPECT_EQ(status.pid, getpid());
  EXPECT_EQ(status.step, 3);
  EXPECT_EQ(status.phase, "forward");
  EXPECT_EQ(status.sequence, 41);
  EXPECT_EQ(status.collective, "gradients 2");
  EXPECT_TRUE(status.inside);
  EXPECT_GE(status.heartbeat_ns, before);
  EXPECT_LE(status.heartbeat_ns, steady_now_ns());

  second.leave();
  second.fail(3, "no such file 'x'");
  second.fail(1, "a later one does not count");
  status = board.read(1);
  EXPECT_FALSE(status.inside);
  EXPECT_EQ(status.sequence, 41);
  EXPECT_TRUE(status.failed);
  EXPECT_EQ(status.exit_code, 3);
  EXPECT_EQ(status.error, "no such file 'x'");
  EXPECT_EQ(board.read(0).step, -1) << "that is another rank's";
  EXPECT_TRUE(second.has_launcher());
}

TEST(StatusBoardTest, LongTextsAreCut) {
  const Board board(2);
  BoardWriter writer(board.fd(), 0);
  const std::string longer(5000, 'x');
  writer.enter(longer.c_str(), 0);
  writer.phase(longer.c_str());
  writer.fail(1, longer.c_str());
  const RankStatus status = board.read(0);
  EXPECT_EQ(status.collective, std::string(47, 'x'));
  EXPECT_EQ(status.phase, std::string(31, 'x'));
  EXPECT_EQ(status.error, std::string(1999, 'x'));
  EXPECT_EQ(board.read(1).collective, "") << "nothing runs over";
  writer.enter("short", 1);
  EXPECT_EQ(board.read(0).collective, "short");
}

TEST(StatusBoardTest, WithoutALauncherWritingDoesNothing) {
  BoardWriter writer;
  writer.step(1);
  writer.enter("a", 1);
  writer.leave();
  writer.phase("data");
  writer.fail(1, "b");
  EXPECT_FALSE(writer.has_launcher());
}

TEST(StatusBoardTest, OpensWhatTheEnvironmentNames) {
  const Board board(3);
  const int fd = dup(board.fd());
  const std::map<std::string, std::string> environment = {{kBoardVariable, std::to_string(fd)},
                                                          {"LOCAL_RANK", "2"}};
  const auto lookup = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  };
  BoardWriter::open(lookup).step(7);
  EXPECT_EQ(board.read(2).step, 7);
  EXPECT_EQ(fcntl(fd, F_GETFD), -1) << "what the rank starts must not inherit it";
  EXPECT_FALSE(BoardWriter::open([](const std::string&) { return std::nullopt; }).has_launcher());
}

TEST(StatusBoardTest, WhatIsNoBoardIsRefused) {
  const Board board(2);
  const OwnedFd file(memfd_create("other", MFD_CLOEXEC)), null(::open("/dev/null", O_RDWR));
  ASSERT_EQ(ftruncate(file.get(), 1 << 20), 0);
  const std::pair<int, int> cases[] = {{board.fd(), 2}, {board.fd(), -1}, {file.get(), 0},
                                       {null.get(), 0}, {-1, 0},          {999, 0}};
  for (const auto& [fd, slot] : cases) {
    try {
      BoardWriter(fd, slot);
      ADD_FAILURE() << fd << ' ' << slot;
    } catch (const Error& error) {
      EXPECT_EQ(
          error.what(),
          text("file descriptor {} is not a status board with a slot for local rank {}", fd, slot));
      EXPECT_EQ(error.hint(), "only accel-run's launcher sets 'ACCEL_RUN_BOARD_FD': unset it");
      EXPECT_EQ(error.code(), ExitCode::kRecipe);
    }
  }
}

TEST(StatusBoardTest, WithoutAFileDescriptorThereIsNoBoard) {
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none = {0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  std::string found;
  try {
    const Board board(1);
  } catch (const Error& error) {
    found = error.what();
  }
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(found, "cannot create the status board: Too many open files");
}

TEST(StatusBoardTest, ARankCannotTakeTheMemoryAway) {
  const Board board(1);
  EXPECT_EQ(ftruncate(board.fd(), 0), -1);
  EXPECT_EQ(board.read(0).step, -1);
}

#if defined(ACCEL_ASAN) || defined(ACCEL_TSAN)
constexpr bool kSlowed = true;  // a writer takes so long that readers meet it halfway all the time
#else
constexpr bool kSlowed = false;
#endif

/// How often a thread of this process was made to wait for a processor; 0 on an idle machine.
int64_t involuntary_switches() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

TEST(StatusBoardTest, NamesAreReadWhole) {
  const Board board(1);
  BoardWriter writer(board.fd(), 0);
  const std::string names[] = {std::string(47, 'a'), std::string(20, 'b')};
  std::atomic<bool> stop = false;
  std::thread thread([&] {
    for (int64_t i = 0; !stop; ++i) {
      writer.enter(names[i % 2].c_str(), i % 2);
      // A writer without a pause could keep a reader from ever seeing a name at rest.
      if (i % 16 == 0) std::this_thread::yield();
    }
  });
  while (board.read(0).sequence < 0) std::this_thread::yield();
  constexpr int kReads = kSlowed ? 20'000 : 1'000'000;
  const int64_t switches = involuntary_switches();
  int64_t mixed = 0;
  for (int i = 0; i < kReads; ++i) {
    const RankStatus status = board.read(0);
    EXPECT_LE(status.collective.size(), 47u);
    if (status.collective == names[status.sequence]) continue;
    ++mixed;
    // On a busy machine the writer is made to wait halfway, until others leave it the processor.
    if (!kSlowed) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  stop = true;
  thread.join();
  const int64_t waits = involuntary_switches() - switches;
  if (kSlowed) return;
  EXPECT_LE(mixed, kReads / 4000 + 20 * waits) << "only of a writer that was made to wait halfway";
}

TEST(StatusBoardTest, ARankKilledAtAnyMomentLeavesSomethingToRead) {
  const std::string names[] = {std::string(47, 'a'), std::string(33, 'b')};
  for (int i = 0; i < 50; ++i) {
    const Board board(1);
    const pid_t rank = fork();
    if (rank == 0) {
      BoardWriter writer(board.fd(), 0);
      for (int64_t sequence = 0;; ++sequence) {
        writer.enter(names[sequence % 2].c_str(), sequence);
        writer.step(sequence);
        writer.leave();
      }
    }
    while (board.read(0).sequence < 100) std::this_thread::yield();
    kill(rank, SIGKILL);
    waitpid(rank, nullptr, 0);
    const RankStatus status = board.read(0);
    EXPECT_GE(status.sequence, status.step);
    EXPECT_LE(status.sequence, status.step + 1);
    EXPECT_LE(status.collective.size(), 47u);
    EXPECT_EQ(status.collective.find_first_not_of("ab"), std::string::npos);
  }
}

}  // namespace
}  // namespace accel::status_board_test
