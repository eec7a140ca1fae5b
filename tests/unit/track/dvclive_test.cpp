#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/track/resumed_run.h"

namespace accel::dvclive_test {
namespace {

using Values = std::vector<Measurement>;

class DvcliveTrackerTest : public testing::Test {
 protected:
  std::unique_ptr<Tracker> tracker(int64_t step = 0, const TrackerNames& ids = {}) {
    return build<Tracker>("dvclive", resumed_context(folder_.path(), step, ids));
  }
  std::string content(const std::string& path) const {
    return file_content(folder_.path("dvclive/" + path));
  }

  TempFolder folder_;
};

TEST_F(DvcliveTrackerTest, TablesGrowAndTheLatestValuesAreNested) {
  const auto dvclive = tracker();
  dvclive->log(1, Values{{"train/loss", 0.5}, {"speed", 8}});
  dvclive->log(2, Values{{"train/loss", 0.25}});
  dvclive->flush(Flush::kReadable);
  EXPECT_EQ(content("plots/metrics/train/loss.tsv"), "step\tloss\n1\t0.5\n2\t0.25\n");
  EXPECT_EQ(content("plots/metrics/speed.tsv"), "step\tspeed\n1\t8\n");
  EXPECT_EQ(content("metrics.json"),
            "{\n    \"speed\": 8.0,\n    \"step\": 2,\n    \"train\": {\n        \"loss\": 0.25\n"
            "    }\n}\n");
}

TEST_F(DvcliveTrackerTest, OptionsAreNestedAndTyped) {
  tracker()->config({{"optimizer.lr", "0.1"}, {"optimizer.type", "sgd"}, {"name", "x"}});
  EXPECT_EQ(content("params.yaml"),
            "{\n  \"name\": \"x\",\n  \"optimizer\": {\n    \"lr\": 0.1,\n    \"type\": \"sgd\"\n"
            "  }\n}\n");
}

TEST_F(DvcliveTrackerTest, ResumeTakesTablesAndLatestValuesBack) {
  TrackerNames ids;
  {
    const auto dvclive = tracker();
    dvclive->log(1, Values{{"loss", 0.5}, {"eval/loss", 0.75}});
    dvclive->flush(Flush::kDurable);
    ids = dvclive->ids();
    dvclive->log(2, Values{{"loss", 9}, {"stale", 9}});
  }
  const auto dvclive = tracker(1, ids);
  EXPECT_EQ(content("metrics.json").find("stale"), std::string::npos);
  dvclive->log(2, Values{{"loss", 0.25}});
  dvclive->finish(RunStatus::kFinished);
  EXPECT_EQ(content("plots/metrics/loss.tsv"), "step\tloss\n1\t0.5\n2\t0.25\n");
  EXPECT_EQ(content("plots/metrics/stale.tsv"), "step\tstale\n");
  EXPECT_NE(content("metrics.json").find("0.75"), std::string::npos);
}

TEST_F(DvcliveTrackerTest, AFreshRunReplacesOlderTables) {
  { tracker()->log(1, Values{{"old", 1}}); }
  tracker();
  EXPECT_FALSE(std::filesystem::exists(folder_.path("dvclive/plots/metrics/old.tsv")));
}

TEST_F(DvcliveTrackerTest, ANameThatIsAlsoAFolderKeepsItsFirstMeaning) {
  const auto dvclive = tracker();
  dvclive->log(1, Values{{"a", 1}, {"a/b", 2}});
  dvclive->flush(Flush::kReadable);
  EXPECT_EQ(content("metrics.json"), "{\n    \"a\": 1.0,\n    \"step\": 1\n}\n");
}

TEST_F(DvcliveTrackerTest, AFolderThatCannotBeMadeIsAnIoError) {
  folder_.write("dvclive", "");
  EXPECT_EQ(complaint<Tracker>("dvclive", run_in(folder_.path())),
            "cannot make the folder '" + folder_.path("dvclive") + "': Not a directory");
}

}  // namespace
}  // namespace accel::dvclive_test
