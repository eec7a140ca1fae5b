#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/archive/zip.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/track/resumed_run.h"

namespace accel::comet_test {
namespace {

using Json = nlohmann::json;
using Values = std::vector<Measurement>;

class CometTrackerTest : public testing::Test {
 protected:
  std::unique_ptr<Tracker> tracker(int64_t step = 0, const TrackerNames& ids = {}) {
    return build<Tracker>("type: comet\nworkspace: us\ntags: [a]",
                          resumed_context(folder_.path(), step, ids));
  }

  /// The experiment and the payloads of one type of message in the archive.
  struct Upload {
    Json experiment;
    std::vector<Json> payloads;
  };
  Upload upload(const TrackerNames& ids, const std::string& type) const {
    const std::string file = file_content(folder_.path("comet/" + ids.at("key") + ".zip"));
    const ZipReader zip(as_bytes(file));
    Upload found;
    found.experiment = Json::parse(as_text(zip.entries().at("experiment.json")));
    std::istringstream lines{std::string(as_text(zip.entries().at("messages.json")))};
    for (std::string line; std::getline(lines, line);) {
      const Json message = Json::parse(line);
      if (message["type"] == type) found.payloads.push_back(message["payload"]);
    }
    return found;
  }

  TempFolder folder_;
};

TEST_F(CometTrackerTest, TheArchiveHoldsTheExperimentAndItsMessages) {
  const auto comet = tracker();
  comet->config({{"optimizer.lr", "0.1"}});
  comet->log(3, Values{{"loss", 0.5}, {"bad", std::nan("")}});
  comet->finish(RunStatus::kFinished);
  const Upload found = upload(comet->ids(), "metric_msg");
  EXPECT_EQ(found.experiment["workspace"], "us");
  EXPECT_EQ(found.experiment["tags"], Json({"a"}));
  ASSERT_EQ(found.payloads.size(), 2u);
  EXPECT_EQ(found.payloads[0]["metric"],
            Json({{"metricName", "loss"}, {"metricValue", 0.5}, {"step", 3}, {"epoch", nullptr}}));
  EXPECT_EQ(found.payloads[1]["metric"]["metricValue"], "NaN");
  EXPECT_EQ(upload(comet->ids(), "parameter_msg").payloads[0]["param"]["paramValue"], 0.1);
  EXPECT_EQ(upload(comet->ids(), "git_metadata").payloads[0]["git_metadata"]["branch"], "main");
}

TEST_F(CometTrackerTest, ResumeCutsTheMessagesToTheCheckpoint) {
  TrackerNames ids;
  {
    const auto comet = tracker();
    comet->log(1, Values{{"loss", 1}});
    comet->flush(Flush::kDurable);
    ids = comet->ids();
    comet->log(2, Values{{"stale", 2}});
    comet->finish(RunStatus::kInterrupted);
  }
  const auto comet = tracker(1, ids);
  comet->log(2, Values{{"loss", 2}});
  comet->finish(RunStatus::kFinished);
  EXPECT_EQ(comet->ids().at("key"), ids.at("key"));
  const Upload found = upload(ids, "metric_msg");
  ASSERT_EQ(found.payloads.size(), 2u);
  EXPECT_EQ(found.payloads[1]["metric"]["metricName"], "loss");
}

TEST_F(CometTrackerTest, LostMessagesStartAnotherExperiment) {
  TrackerNames ids = tracker()->ids();
  std::filesystem::remove_all(folder_.path("comet"));
  EXPECT_NE(tracker(5, ids)->ids().at("key"), ids.at("key"));
}

}  // namespace
}  // namespace accel::comet_test
