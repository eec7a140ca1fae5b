#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "train/control/control_box.h"
#include "train/control/control_journal.h"

namespace accel::control_test {
namespace {

namespace fs = std::filesystem;

class ControlTest : public testing::Test {
 protected:
  ControlTest() : run_(fs::path(testing::TempDir()) / "control_test") {
    fs::remove_all(run_);
    fs::create_directories(run_);
  }
  ~ControlTest() override { fs::remove_all(run_); }

  std::string run() const { return run_.string(); }
  mode_t mode(const std::string& name) const {
    struct stat info = {};
    stat((run_ / name).c_str(), &info);
    return info.st_mode & 0777;
  }

  fs::path run_;
};

TEST_F(ControlTest, OrdersComeInTheirOrderAndAnswersOnce) {
  ControlBox box(run());
  EXPECT_EQ(mode("control"), 0700);
  EXPECT_FALSE(box.waiting());
  const std::string first = post_command(run(), "lr=0.1"), second = post_command(run(), "save");
  EXPECT_EQ(mode("control/" + first + ".command"), 0600);
  const auto order = box.take();
  ASSERT_TRUE(order);
  EXPECT_EQ(order->id, first);
  EXPECT_EQ(order->text, "lr=0.1");
  EXPECT_EQ(box.take()->text, "save");
  EXPECT_FALSE(box.take());
  EXPECT_FALSE(take_answer(run(), first));
  box.answer(*order, true, "lr is 0.1");
  const auto answer = take_answer(run(), first);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->done);
  EXPECT_EQ(answer->text, "lr is 0.1");
  EXPECT_FALSE(take_answer(run(), first));
  box.answer({second, ""}, false, "no");
  EXPECT_FALSE(take_answer(run(), second)->done);
}

TEST_F(ControlTest, AnOrderCanBeWithdrawnUntilItIsTaken) {
  ControlBox box(run());
  EXPECT_TRUE(withdraw_command(run(), post_command(run(), "save")));
  EXPECT_FALSE(box.take());
  const std::string id = post_command(run(), "save");
  box.take();
  EXPECT_FALSE(withdraw_command(run(), id));
}

TEST_F(ControlTest, WhatIsNoPlainFileIsRefused) {
  ControlBox box(run());
  std::ofstream(run_ / "secret") << "stop";
  fs::create_symlink(run_ / "secret", run_ / "control/1.command");
  std::ofstream(run_ / "control/2.command") << std::string(5000, 'x');
  EXPECT_FALSE(box.take());
  EXPECT_EQ(take_answer(run(), "1")->text, "the command is unreadable");
  EXPECT_EQ(take_answer(run(), "2")->text, "the command is unreadable");
}

TEST_F(ControlTest, NobodyTakesOrdersBeforeOrAfterARun) {
  const auto refusal = [&] {
    try {
      post_command(run(), "save");
    } catch (const Error& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return std::string();
  };
  const std::string wanted =
      "the run in '" + run() +
      "' accepts no commands | it has ended or has not reached its first step";
  EXPECT_EQ(refusal(), wanted);
  std::string left;
  {
    ControlBox box(run());
    left = post_command(run(), "save");
  }
  EXPECT_EQ(refusal(), wanted);
  EXPECT_EQ(take_answer(run(), left)->text, "the run has ended");
  std::ofstream(run_ / "control/9.command") << "stop";  // to a process that is gone
  ControlBox box(run());
  EXPECT_FALSE(box.take());
}

TEST_F(ControlTest, TheJournalIsReadByStepAndPassesOverTornLines) {
  EXPECT_TRUE(read_journal(run()).empty());
  add_to_journal(run(), {20, "eval", ""});
  add_to_journal(run(), {10, "optimizer.lr=0.1", "0.2"});
  std::ofstream(run_ / "control.jsonl", std::ios::app) << "{\"step\":30,\"or";
  const std::vector<JournalEntry> wanted = {{10, "optimizer.lr=0.1", "0.2"}, {20, "eval", ""}};
  EXPECT_EQ(read_journal(run()), wanted);
  EXPECT_EQ(wanted[0].key(), "optimizer.lr");
  EXPECT_EQ(wanted[1].key(), "");
  drop_from_journal(run(), {"optimizer.lr"});
  EXPECT_EQ(read_journal(run()), std::vector<JournalEntry>{wanted[1]});
  clear_journal(run());
  EXPECT_TRUE(read_journal(run()).empty());
}

}  // namespace
}  // namespace accel::control_test
