#include "runner/launch/rank_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/unit/formats/temp_folder.h"

namespace accel::rank_output_test {
namespace {

using Lines = std::vector<std::string>;

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), {});
}

TEST(LastLinesTest, AreTheLastTwenty) {
  LastLines tail;
  EXPECT_EQ(tail.lines(), Lines());
  tail.add("a\nb");
  EXPECT_EQ(tail.lines(), (Lines{"a", "b"}));
  tail.add("c\n\nd\n");
  EXPECT_EQ(tail.lines(), (Lines{"a", "bc", "", "d"}));
  for (int i = 0; i < 100; ++i) tail.add(std::to_string(i) + "\n");
  EXPECT_EQ(tail.lines().size(), 20u);
  EXPECT_EQ(tail.lines().front(), "80");
  tail.add("unfinished");
  EXPECT_EQ(tail.lines().size(), 20u);
  EXPECT_EQ(tail.lines().front(), "81");
  EXPECT_EQ(tail.lines().back(), "unfinished");
}

TEST(LastLinesTest, OneLongPieceIsAsManyShortOnes) {
  std::string text;
  for (int lines = 0; lines < 50; ++lines) {
    LastLines whole, pieces;
    whole.add("before\nhalf");
    whole.add(text);
    pieces.add("before\nhalf");
    for (const char letter : text) pieces.add({&letter, 1});
    EXPECT_EQ(whole.lines(), pieces.lines()) << lines;
    text += std::to_string(lines) + "\n";
  }
}

TEST(LastLinesTest, LongLinesAreCutAndBarsWrittenOver) {
  LastLines tail;
  tail.add(std::string(300, 'x'));
  tail.add(std::string(100'000, 'y'));
  tail.add("\n10 %\r20 %\rdone\n");
  const std::string cut = std::string(300, 'x').append(100, 'y');
  EXPECT_EQ(tail.lines(), (Lines{cut, "done"}));
}

TEST(LazyLogTest, WaitsForItsFolder) {
  const TempFolder parent;
  const std::string path = parent.path("run/rank-1.out");
  LazyLog log(path);
  log.add("a\n");
  EXPECT_FALSE(log.written());
  std::filesystem::create_directory(parent.path("run"));
  EXPECT_FALSE(std::filesystem::exists(path)) << "not before the next line";
  log.add("b\n");
  EXPECT_TRUE(log.written());
  EXPECT_EQ(content(path), "a\nb\n");
  LazyLog again(path);
  again.add("c\n");
  EXPECT_EQ(content(path), "a\nb\nc\n") << "that of the run before stays";
}

TEST(LazyLogTest, KeepsLittleForAFolderThatDoesNotCome) {
  const TempFolder parent;
  LazyLog log(parent.path("run/rank-1.out"));
  for (int i = 0; i < 1000; ++i) log.add(std::string(1000, 'x'));
  std::filesystem::create_directory(parent.path("run"));
  log.add("");
  EXPECT_EQ(content(log.path()).size(), 256u << 10);
}

TEST(LazyLogTest, StopsAtItsCapWithWhatWasThere) {
  const TempFolder folder;
  const std::string path = folder.write("a", std::string((16 << 20) - 5, 'x'));
  LazyLog log(path);
  for (int i = 0; i < 3; ++i) log.add("0123456789");
  EXPECT_TRUE(content(path).ends_with(
      "xxx01234\naccel-run: the log is full, further output was dropped\n"));
}

TEST(LazyLogTest, SaysOnceWhenItCannot) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.path("a"));
  LazyLog log(folder.path("a"));
  testing::internal::CaptureStderr();
  log.add("x");
  log.add("y");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: output of a rank is lost: cannot open '" + folder.path("a") +
                "': Is a directory\n");
  LazyLog full("/dev/full");
  testing::internal::CaptureStderr();
  full.add("x");
  full.add("y");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: output of a rank is lost: cannot write '/dev/full': No space left on "
            "device\n");
}

TEST(RelayTest, ASlowReaderLosesOnlyTheRest) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  ASSERT_EQ(fcntl(ends[1], F_SETFL, 0), 0) << "a blocked write would wait";
  Relay relay(ends[1]);
  for (int i = 0; i < 400; ++i) relay.add(std::string(10'000, 'x'));
  EXPECT_TRUE(relay.pending());
  std::string got;
  char buffer[65536];
  for (ssize_t count = 1; count > 0 || relay.pending(); relay.flush()) {
    count = read(ends[0], buffer, sizeof buffer);
    if (count > 0) got.append(buffer, static_cast<size_t>(count));
  }
  EXPECT_TRUE(got.ends_with("xx\naccel-run: output was dropped because it is read too slowly\n"));
  EXPECT_GE(got.size(), 1u << 20);
  EXPECT_LT(got.size(), 2u << 20);
  relay.add("all is well again\n");
  EXPECT_FALSE(relay.pending());
  close(ends[0]);
  close(ends[1]);
}

TEST(RelayTest, AReaderThatIsGoneIsNoReasonToStop) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  signal(SIGPIPE, SIG_IGN);
  Relay relay(ends[1]);
  relay.add("x");
  EXPECT_FALSE(relay.pending());
  signal(SIGPIPE, SIG_DFL);
  close(ends[1]);
}

}  // namespace
}  // namespace accel::rank_output_test
