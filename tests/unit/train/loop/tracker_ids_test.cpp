#include "train/loop/run_state.h"

#include <gtest/gtest.h>

namespace accel::tracker_ids_test {
namespace {

TEST(TrackerIdsTest, TrackersOfOneTypeAreToldApart) {
  std::vector<Ref<Tracker>> trackers(4);
  trackers[0].type = trackers[2].type = trackers[3].type = "csv";
  trackers[1].type = "wandb";
  EXPECT_EQ(tracker_names(trackers), (std::vector<std::string>{"csv", "wandb", "csv.2", "csv.3"}));
}

TEST(TrackerIdsTest, ACheckpointKnowsWhatEachTrackerCallsTheRun) {
  TrainState state;
  state.sections["trackers/csv.2"].texts = {{"run_id", "b"}};
  EXPECT_EQ(tracker_ids(state, "csv.2"), (std::map<std::string, std::string>{{"run_id", "b"}}));
  EXPECT_TRUE(tracker_ids(state, "csv").empty());  // added since
}

}  // namespace
}  // namespace accel::tracker_ids_test
