#include <gtest/gtest.h>

#include "core/base/digest.h"
#include "formats/image/image.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/track/block_log_reader.h"
#include "tests/unit/track/resumed_run.h"

namespace accel::swanlab_test {
namespace {

using Values = std::vector<Measurement>;

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

class SwanlabTrackerTest : public testing::Test {
 protected:
  std::unique_ptr<Tracker> tracker(int64_t step = 0, const TrackerNames& ids = {}) {
    return build<Tracker>("type: swanlab\nproject: digits\nworkspace: us\ntags: [a]\nnotes: tried",
                          resumed_context(folder_.path(), step, ids));
  }

  std::string run_folder(const TrackerNames& ids) const {
    return folder_.path("swanlog/" + ids.at("folder"));
  }

  std::string file(const TrackerNames& ids) const {
    return file_content(run_folder(ids) + "/run-" + ids.at("run_id") + ".swanlab");
  }

  std::vector<std::string> records(const TrackerNames& ids) const {
    return block_log_records(file(ids), 7);
  }

  TempFolder folder_;
};

/// The field that says of what kind a record is, and its number within the run (a varint of few
/// bits, or a negative one).
constexpr char kStartTag = 0x52, kFinishTag = 0x5a, kColumnTag = 0x62, kScalarTag = 0x6a,
               kMediaTag = 0x72;

bool is_kind(const std::string& record, char tag) {
  // Behind the number and the time, whose lengths are their second bytes.
  size_t at = 1;
  while (static_cast<uint8_t>(record.at(at)) >= 0x80) ++at;
  ++at;
  return record.at(at + 2 + static_cast<uint8_t>(record.at(at + 1))) == tag;
}

TEST_F(SwanlabTrackerTest, TheFileHasItsHeadAndTheRunFirst) {
  const auto swanlab = tracker();
  const TrackerNames ids = swanlab->ids();
  EXPECT_EQ(file(ids).substr(0, 7), std::string(":SWL\xd6\xe1\x02"));
  const std::vector<std::string> found = records(ids);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(is_kind(found[0], kStartTag));
  for (const std::string text : {"digits", "us", "run", "tried"})
    EXPECT_TRUE(holds(found[0], text));
  EXPECT_TRUE(holds(found[0], ids.at("run_id")));
  EXPECT_TRUE(ids.at("folder").starts_with("run-20"));
  EXPECT_TRUE(ids.at("folder").ends_with("-" + ids.at("run_id")));
}

TEST_F(SwanlabTrackerTest, AMetricIsAnnouncedOnce) {
  const auto swanlab = tracker();
  swanlab->log(1, Values{{"train/loss", 0.5}, {"train/lr", 1}});
  swanlab->log(2, Values{{"train/loss", 0.25}});
  swanlab->finish(RunStatus::kFinished);
  const std::vector<std::string> found = records(swanlab->ids());
  std::string kinds;
  for (const std::string& record : found) {
    kinds += is_kind(record, kStartTag)    ? 's'
             : is_kind(record, kColumnTag) ? 'c'
             : is_kind(record, kScalarTag) ? 'v'
             : is_kind(record, kFinishTag) ? 'f'
                                           : '?';
  }
  EXPECT_EQ(kinds, "scvcvvf");
}

TEST_F(SwanlabTrackerTest, ImagesAndTextsAreFilesThatRecordsName) {
  const auto swanlab = tracker();
  swanlab->image(7, "samples/0", {1, 2, 3, {0, 1, 2, 253, 254, 255}});
  swanlab->text(1234, "note", "\xc3\xa9 \xff");
  swanlab->finish(RunStatus::kFinished);
  const std::string png = encode_png({1, 2}, 3, std::vector<uint8_t>{0, 1, 2, 253, 254, 255});
  const std::string said = "\xc3\xa9 \xef\xbf\xbd";
  const std::string image = "007-" + digest_of(Digest::Kind::kSha256, png).substr(0, 8) + ".png";
  const std::string text = "1234-" + digest_of(Digest::Kind::kSha256, said).substr(0, 8) + ".txt";
  const std::string media = run_folder(swanlab->ids()) + "/media/";
  EXPECT_EQ(file_content(media + "image/" + image), png);
  EXPECT_EQ(file_content(media + "text/" + text), said);
  const std::vector<std::string> found = records(swanlab->ids());
  ASSERT_EQ(found.size(), 6u);  // the start, a column and a medium of each, the end
  EXPECT_TRUE(holds(found[1], "samples"));
  EXPECT_TRUE(is_kind(found[2], kMediaTag));
  EXPECT_TRUE(holds(found[2], image) && holds(found[2], digest_of(Digest::Kind::kSha256, png)));
  EXPECT_TRUE(is_kind(found[4], kMediaTag));
  EXPECT_TRUE(holds(found[4], text));
}

TEST_F(SwanlabTrackerTest, OptionsAreAFileOfTheRun) {
  const auto swanlab = tracker();
  swanlab->config(run_config());
  EXPECT_EQ(file_content(run_folder(swanlab->ids()) + "/files/config.yaml"),
            "\"optimizer.lr\": {desc: '', sort: 0, value: 0.001}\n"
            "\"train.deterministic\": {desc: '', sort: 1, value: true}\n"
            "\"model.type\": {desc: '', sort: 2, value: \"mlp\"}\n");
  swanlab->finish(RunStatus::kFinished);
  EXPECT_TRUE(holds(records(swanlab->ids())[1], "/files/config.yaml"));
}

TEST_F(SwanlabTrackerTest, AnInterruptedRunIsStillToEnd) {
  const auto swanlab = tracker();
  swanlab->finish(RunStatus::kInterrupted);
  EXPECT_EQ(records(swanlab->ids()).size(), 1u);
  swanlab->finish(RunStatus::kFailed);
  EXPECT_TRUE(is_kind(records(swanlab->ids()).back(), kFinishTag));
}

TEST_F(SwanlabTrackerTest, ResumeCutsTheRecordsToTheCheckpoint) {
  TrackerNames ids;
  {
    const auto swanlab = tracker();
    swanlab->log(1, Values{{"train/loss", 1}});
    swanlab->flush(Flush::kDurable);
    ids = swanlab->ids();
    swanlab->log(2, Values{{"train/stale", 2}});
    swanlab->finish(RunStatus::kFailed);
  }
  EXPECT_EQ(records(ids).size(), 6u);
  const auto swanlab = tracker(1, ids);
  swanlab->log(2, Values{{"train/loss", 2}});
  swanlab->finish(RunStatus::kFinished);
  EXPECT_EQ(swanlab->ids().at("run_id"), ids.at("run_id"));
  const std::vector<std::string> found = records(ids);
  ASSERT_EQ(found.size(), 6u);  // the metric is announced again
  for (const std::string& record : found) EXPECT_FALSE(holds(record, "stale"));
}

TEST_F(SwanlabTrackerTest, ALostFileStartsAnotherRun) {
  const TrackerNames ids = tracker()->ids();
  std::filesystem::remove_all(folder_.path("swanlog"));
  EXPECT_NE(tracker(5, ids)->ids().at("run_id"), ids.at("run_id"));
}

}  // namespace
}  // namespace accel::swanlab_test
