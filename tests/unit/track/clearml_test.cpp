#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/archive/zip.h"
#include "formats/image/image.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/track/resumed_run.h"

namespace accel::clearml_test {
namespace {

using Json = nlohmann::json;
using Values = std::vector<Measurement>;

class ClearmlTrackerTest : public testing::Test {
 protected:
  std::unique_ptr<Tracker> tracker(int64_t step = 0, const TrackerNames& ids = {}) {
    return build<Tracker>("type: clearml\nproject: digits\ntags: [a]",
                          resumed_context(folder_.path(), step, ids));
  }

  std::string member(const TrackerNames& ids, const std::string& name) const {
    const std::string file = file_content(folder_.path("clearml/" + ids.at("task") + ".zip"));
    const ZipReader zip(as_bytes(file));
    return std::string(as_text(zip.entries().at(name)));
  }

  /// Of a file of lines that are lists.
  std::vector<Json> events(const TrackerNames& ids, const std::string& name) const {
    std::vector<Json> found;
    std::istringstream lines{member(ids, name)};
    for (std::string line; std::getline(lines, line);) {
      for (const Json& event : Json::parse(line)) found.push_back(event);
    }
    return found;
  }

  TempFolder folder_;
};

TEST_F(ClearmlTrackerTest, TheTaskHoldsTheOptions) {
  const auto clearml = tracker();
  clearml->config({{"optimizer.lr", "0.1"}});
  clearml->finish(RunStatus::kFinished);
  const Json task = Json::parse(member(clearml->ids(), "task.json"));
  EXPECT_EQ(task["id"], clearml->ids().at("task"));
  EXPECT_EQ(task["name"], "run");
  EXPECT_EQ(task["project_name"], "digits");
  EXPECT_EQ(task["tags"], Json({"a"}));
  EXPECT_EQ(task["type"], "training");
  EXPECT_EQ(task["hyperparams"]["General"]["optimizer.lr"]["value"], "0.1");
  EXPECT_EQ(task["script"]["version_num"], "0123456789abcdef0123456789abcdef01234567");
}

TEST_F(ClearmlTrackerTest, NumbersOfOneTitleShareAPlot) {
  const auto clearml = tracker();
  const std::array<std::array<const char*, 3>, 5> cases = {
      {{"train/loss", "loss", "train"},
       {"eval/loss", "loss", "eval"},
       {"system/gpu0/memory_mib", "system", "gpu0/memory_mib"},
       {"score", "score", "score"},
       {"test/f1", "f1", "test"}}};
  for (const auto& names : cases) clearml->log(7, Values{{names[0], 0.25}});
  clearml->log(8, Values{{"train/loss", std::nan("")}});
  clearml->log(9, Values{{"train/loss", std::nan("")}, {"train/lr", 0.5}});
  clearml->finish(RunStatus::kFinished);
  const std::vector<Json> found = events(clearml->ids(), "metrics.jsonl");
  ASSERT_EQ(found.size(), cases.size() + 1);
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(found[i]["metric"], cases[i][1]);
    EXPECT_EQ(found[i]["variant"], cases[i][2]);
    EXPECT_EQ(found[i]["value"], 0.25);
    EXPECT_EQ(found[i]["iter"], 7);
    EXPECT_EQ(found[i]["type"], "training_stats_scalar");
    EXPECT_EQ(found[i]["task"], clearml->ids().at("task"));
  }
  EXPECT_EQ(found.back()["metric"], "lr");
}

TEST_F(ClearmlTrackerTest, TextsAreLinesOfTheLog) {
  const auto clearml = tracker();
  clearml->text(3, "note", "**bold** \"q\"");
  clearml->finish(RunStatus::kFailed);
  const std::vector<Json> found = events(clearml->ids(), "log.jsonl");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["msg"], "note: **bold** \"q\"");
  EXPECT_EQ(found[0]["iter"], 3);
}

TEST_F(ClearmlTrackerTest, ImagesLieInTheArchiveUnderTheirKeys) {
  const auto clearml = tracker();
  const std::string task = clearml->ids().at("task");
  clearml->image(7, "samples/0", {1, 2, 3, {0, 1, 2, 253, 254, 255}});
  clearml->finish(RunStatus::kFinished);
  const std::vector<Json> found = events(clearml->ids(), "metrics.jsonl");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["type"], "training_debug_image");
  EXPECT_EQ(found[0]["metric"], "samples");
  EXPECT_EQ(found[0]["variant"], "0");
  EXPECT_EQ(found[0]["iter"], 7);
  const std::string key = found[0]["key"];
  EXPECT_TRUE(key.ends_with("/run." + task + "/metrics/samples/0_7.png")) << key;
  EXPECT_EQ(member(clearml->ids(), "data/" + key),
            encode_png({1, 2}, 3, std::vector<uint8_t>{0, 1, 2, 253, 254, 255}));
}

TEST_F(ClearmlTrackerTest, ResumeCutsTheEventsToTheCheckpoint) {
  TrackerNames ids;
  {
    const auto clearml = tracker();
    clearml->log(1, Values{{"train/loss", 1}});
    clearml->text(1, "kept", "a");
    clearml->flush(Flush::kDurable);
    ids = clearml->ids();
    clearml->log(2, Values{{"train/stale", 2}});
    clearml->text(2, "stale", "b");
    clearml->finish(RunStatus::kInterrupted);
  }
  const auto clearml = tracker(1, ids);
  clearml->log(2, Values{{"train/loss", 2}});
  clearml->finish(RunStatus::kFinished);
  EXPECT_EQ(clearml->ids().at("task"), ids.at("task"));
  const std::vector<Json> found = events(ids, "metrics.jsonl");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1]["metric"], "loss");
  EXPECT_EQ(events(ids, "log.jsonl").size(), 1u);
}

TEST_F(ClearmlTrackerTest, LostEventsStartAnotherSession) {
  const TrackerNames ids = tracker()->ids();
  std::filesystem::remove_all(folder_.path("clearml"));
  EXPECT_NE(tracker(5, ids)->ids().at("task"), ids.at("task"));
}

}  // namespace
}  // namespace accel::clearml_test
