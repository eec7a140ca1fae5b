// Numbers that are put aside on the disk.
#include "data/spill.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "data/token_sequences.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel {
namespace {

/// 1 to `count`, in runs of unequal length.
SpilledNumbers filled(const std::filesystem::path& folder, int32_t count) {
  SpilledNumbers numbers(folder);
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
      SpilledNumbers numbers = filled(place, count);
      EXPECT_EQ(numbers.size(), count);
      expect_all(std::move(numbers).finish(), count);
    }
  }
  EXPECT_TRUE(SpilledNumbers(folder.path()).finish().empty());
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
}  // namespace accel
