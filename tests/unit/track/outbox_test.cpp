#include "track/outbox.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::outbox_test {
namespace {

using Lines = std::vector<std::string>;

/// "12 anything"
std::optional<int64_t> step_of(std::string_view line) {
  if (line.empty() || line[0] < '0' || line[0] > '9') return std::nullopt;
  return std::stoll(std::string(line));
}

Lines first(const Outbox& outbox, size_t most = 100) {
  return outbox.first([&](const Lines& taken, const std::string&) { return taken.size() < most; });
}

class OutboxTest : public testing::Test {
 protected:
  std::unique_ptr<Outbox> open(int64_t first_step = 0) {
    const auto last = first_step > 0 ? std::optional(first_step) : std::nullopt;
    return std::make_unique<Outbox>(path(), last, &step_of);
  }
  std::string path() const { return folder_.path("outbox"); }

  TempFolder folder_;
};

TEST_F(OutboxTest, LinesLeaveInOrderOnceTheyAreOnTheDisk) {
  const auto outbox = open();
  outbox->append("1 a");
  EXPECT_FALSE(outbox->ready());
  outbox->flush(Flush::kReadable);
  EXPECT_TRUE(outbox->ready());
  outbox->append("2 b");
  outbox->flush(Flush::kDurable);
  EXPECT_EQ(first(*outbox, 1), (Lines{"1 a"}));
  outbox->done({"1 a"});
  EXPECT_EQ(first(*outbox), (Lines{"2 b"}));
  outbox->done({"2 b"});
  EXPECT_EQ(outbox->unsent(), 0u);
  EXPECT_FALSE(outbox->ready());
  EXPECT_EQ(file_content(path()), "1 a\n2 b\n");
}

TEST_F(OutboxTest, OffsetsThatCannotBeSyncedAreAnError) {
  std::filesystem::create_symlink("/dev/null", path() + ".sent");
  const auto outbox = open();
  outbox->append("1 a");
  EXPECT_EQ(complaint([&] { outbox->flush(Flush::kDurable); }),
            "cannot sync '" + path() + ".sent': Invalid argument");
}

TEST_F(OutboxTest, ALaterLifeGoesOnWhereTheServerIs) {
  {
    const auto outbox = open();
    for (const char* line : {"1 a", "2 b", "3 c"}) outbox->append(line);
    outbox->flush(Flush::kReadable);
    outbox->done({"1 a"});
  }
  const auto outbox = open(5);
  EXPECT_EQ(outbox->unsent(), 2u);
  EXPECT_EQ(first(*outbox), (Lines{"2 b", "3 c"}));
}

TEST_F(OutboxTest, ResumeDropsLaterLinesButNotWhatTheServerMayHaveSeen) {
  {
    const auto outbox = open();
    for (const char* line : {"1 a", "12 b", "13 c", "14 d"}) outbox->append(line);
    outbox->append("2 e");
    outbox->flush(Flush::kReadable);
    outbox->done({"1 a"});
    outbox->sending({"12 b", "13 c"});
  }
  const auto outbox = open(10);
  EXPECT_EQ(file_content(path()), "1 a\n12 b\n13 c\n2 e\n");
  EXPECT_EQ(first(*outbox), (Lines{"12 b", "13 c", "2 e"}));
}

TEST_F(OutboxTest, ATornLineAndForeignOnesAreDropped) {
  { open()->append("1 a"); }
  folder_.write("outbox", "1 a\nnonsense\n2 b\n3 tor");
  const auto outbox = open(10);
  EXPECT_EQ(file_content(path()), "1 a\n2 b\n");
  EXPECT_EQ(outbox->unsent(), 2u);
}

TEST_F(OutboxTest, MarksOfAnotherFileAreNotBelieved) {
  folder_.write("outbox", "1 a\n");
  folder_.write("outbox.sent", "00000000000000000900 00000000000000000900\n");
  EXPECT_EQ(first(*open(10)), (Lines{"1 a"}));
  folder_.write("outbox.sent", "what?");
  EXPECT_EQ(first(*open(10)), (Lines{"1 a"}));
}

TEST_F(OutboxTest, AFreshRunStartsEmpty) {
  { open()->append("1 a"); }
  const auto outbox = open(0);
  EXPECT_EQ(outbox->unsent(), 0u);
  EXPECT_EQ(file_content(path()), "");
}

}  // namespace
}  // namespace accel::outbox_test
