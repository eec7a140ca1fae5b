#include "parallel/shared_memory/shared_segment.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>

namespace accel::shared_segment_test {
namespace {

constexpr size_t kHeader = 4096;

/// A child process that runs `body` and then waits for a signal.
template <class Body>
pid_t start_child(Body body) {
  const pid_t child = fork();
  if (child != 0) return child;
  body();
  while (true) pause();
}

void end_child(pid_t child, int signal) {
  kill(child, signal);
  waitpid(child, nullptr, 0);
}

TEST(SharedSegmentTest, AnotherProcessSeesWhatIsWrittenAndWritesToo) {
  SharedSegment own(kHeader);
  own.resize(100);
  std::strcpy(reinterpret_cast<char*>(own.data(0, 100)), "question");
  const std::string name = own.name();
  const pid_t child = fork();
  if (child == 0) {
    SharedSegment other(kHeader, name);
    char* text = reinterpret_cast<char*>(other.data(0, 100));
    const bool right = std::strcmp(text, "question") == 0;
    std::strcpy(text, "answer");
    _exit(right ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_STREQ(reinterpret_cast<char*>(own.data(0, 100)), "answer");
}

TEST(SharedSegmentTest, DataGrowAndShrinkUnderMappings) {
  SharedSegment own(kHeader);
  own.resize(1);
  SharedSegment other(kHeader, own.name());
  *other.data(0, 1) = std::byte{7};
  own.resize(1 << 20);
  *own.data((1 << 20) - 1, 1) = std::byte{9};
  EXPECT_EQ(*other.data((1 << 20) - 1, 1), std::byte{9});
  EXPECT_EQ(*own.data(0, 1), std::byte{7});
  own.resize(4096);
  own.resize(1 << 20);
  EXPECT_EQ(*own.data((1 << 20) - 1, 1), std::byte{0});
  EXPECT_EQ(*other.data((1 << 20) - 1, 1), std::byte{0});
}

TEST(SharedSegmentTest, ItIsOpenUntilItsProcessEndsOrClosesIt) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t child = start_child([&] {
    auto* segment = new SharedSegment(kHeader);
    const std::string name = segment->name() + "\n";
    if (write(pipe_fds[1], name.data(), name.size()) < 0) _exit(1);
  });
  char name[100] = {};
  ASSERT_GT(read(pipe_fds[0], name, sizeof name - 1), 0);
  {
    SharedSegment other(kHeader, name);
    EXPECT_TRUE(other.is_open());
    end_child(child, SIGKILL);
    EXPECT_FALSE(other.is_open());
  }
  EXPECT_THROW(SharedSegment(kHeader, name), std::system_error);

  SharedSegment own(kHeader);
  const SharedSegment other(kHeader, own.name());
  EXPECT_TRUE(other.is_open());
  own.close();
  EXPECT_FALSE(other.is_open());
}

TEST(SharedSegmentTest, AnotherFileUnderTheNameIsRefused) {
  SharedSegment own(kHeader), second(kHeader);
  const auto key_of = [](const SharedSegment& segment) {
    return segment.name().substr(segment.name().rfind(' '));
  };
  const std::string wrong = own.name().substr(0, own.name().rfind(' ')) + key_of(second);
  const auto complaint = [](const std::string& name) -> std::string {
    try {
      SharedSegment other(kHeader, name);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint(wrong), "not the memory of a rank");
  EXPECT_EQ(complaint(std::to_string(getpid()) + " 999999 1"), "open: No such file or directory");
  EXPECT_EQ(complaint(""), "open: No such file or directory");
  SharedSegment small(1);
  EXPECT_EQ(complaint(own.name()), "");
}

}  // namespace
}  // namespace accel::shared_segment_test
