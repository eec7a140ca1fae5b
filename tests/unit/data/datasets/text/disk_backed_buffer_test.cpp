// Numbers that are put aside on the disk.
#include "data/datasets/text/disk_backed_buffer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "core/base/error.h"
#include "data/datasets/text/token_sequences.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::disk_backed_buffer_test {
namespace {

/// 1 to `count`, in runs of unequal length.
DiskBackedBuffer filled(const std::filesystem::path& folder, int32_t count) {
  DiskBackedBuffer numbers(folder);
  for (int32_t next = 1; next <= count;) {
    std::vector<int32_t> run;
    for (int32_t i = 0; i <= next % 1000 && next <= count; ++i) run.push_back(next++);
    numbers.add(run);
  }
  return numbers;
}

void expect_all(const Array& found, int32_t count) {
  ASSERT_EQ(found.count(), count);
  const auto values = found.as<int32_t>();
  for (int32_t i = 0; i < count; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], i + 1);
}

TEST(SpillTest, GivesWhatItTook) {
  const TempFolder folder;
  for (const int32_t count : {1, 999, 1 << 18, (1 << 18) + 1, 3000000}) {
    for (const std::string& place : {std::string(), folder.path("new/deep")}) {
      DiskBackedBuffer numbers = filled(place, count);
      EXPECT_EQ(numbers.size(), count);
      expect_all(std::move(numbers).finish(), count);
    }
  }
  EXPECT_TRUE(DiskBackedBuffer(folder.path()).finish().empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("new/deep")));
}

TEST(SpillTest, GoesOnInMemoryWhereTheDiskDoesNot) {
  const TempFolder folder;
  expect_all(filled(folder.write("file", "no folder"), 3000000).finish(), 3000000);
  // A limit on the size of files is met as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  for (const rlim_t room : {0, 3 << 20, 11 << 20}) {
    const rlimit small = {room, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const Array found = filled(folder.path(), 3000000).finish();
    ::setrlimit(RLIMIT_FSIZE, &before);
    expect_all(found, 3000000);
  }
}

/// Empties the unnamed file of this process in `folder`.
void empty_unnamed_file(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error);
    if (target.starts_with(folder)) std::filesystem::resize_file(entry.path(), 0, error);
  }
}

TEST(SpillTest, LostNumbersAreAnErrorWhenTheDiskIsFull) {
  const TempFolder folder;
  DiskBackedBuffer numbers(folder.path());
  const std::vector<int32_t> run(1 << 18, 7);
  numbers.add(run);
  empty_unnamed_file(folder.path());
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {1 << 20, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    numbers.add(run);
  } catch (const IoError& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(message, "cannot read back the temporary tokens in '" + folder.path() + "'");
}

TEST(SpillTest, SequencesAreTheSameFromTheDisk) {
  const TempFolder folder;
  TokenSequencesBuilder small, large{folder.path()};
  for (int32_t i = 0; i < 20000; ++i) {
    const std::vector<int32_t> tokens(static_cast<size_t>(i % 60), i), kinds(tokens.size(), i % 2);
    small.add(tokens, kinds);
    large.add(tokens, kinds);
  }
  const TokenSequences one = std::move(small).finish(), other = std::move(large).finish();
  ASSERT_EQ(other.size(), 20000);
  EXPECT_EQ(one.bytes(), other.bytes());
  for (const int64_t index : {0, 1, 59, 777, 19999}) {
    const Sample a = one.sample(index), b = other.sample(index);
    const auto [x, y] = std::pair{a.input.as<int64_t>(), b.input.as<int64_t>()};
    EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin(), y.end())) << index;
    const auto [p, q] = std::pair{a.segments.as<int64_t>(), b.segments.as<int64_t>()};
    EXPECT_TRUE(std::equal(p.begin(), p.end(), q.begin(), q.end())) << index;
  }
}

}  // namespace
}  // namespace accel::disk_backed_buffer_test
