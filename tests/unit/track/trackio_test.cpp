#include <gtest/gtest.h>
#include <sqlite3.h>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/track/resumed_run.h"

namespace accel::trackio_test {
namespace {

using Lines = std::vector<std::string>;
using Values = std::vector<Measurement>;

/// Rows of a query, columns behind one another with blanks between.
Lines rows(const std::string& path, const char* query) {
  sqlite3* database = nullptr;
  Lines lines;
  EXPECT_EQ(::sqlite3_open(path.c_str(), &database), SQLITE_OK);
  const auto take = [](void* out, int count, char** values, char**) {
    std::string line;
    for (int i = 0; i < count; ++i) line += (i ? " " : "") + std::string(values[i]);
    static_cast<Lines*>(out)->push_back(line);
    return 0;
  };
  EXPECT_EQ(::sqlite3_exec(database, query, take, &lines, nullptr), SQLITE_OK);
  ::sqlite3_close(database);
  return lines;
}

class TrackioTrackerTest : public testing::Test {
 protected:
  std::unique_ptr<Tracker> tracker(int64_t step = 0, const TrackerNames& ids = {}) {
    return build<Tracker>("trackio", resumed_context(folder_.path(), step, ids));
  }
  std::string path() const { return folder_.path("trackio/accel-run.db"); }
  Lines metrics() const {
    return rows(path(), "SELECT run_name, step, metrics FROM metrics ORDER BY id");
  }

  TempFolder folder_;
};

TEST_F(TrackioTrackerTest, ValuesOfOneStepAreOneRow) {
  const auto trackio = tracker();
  trackio->log(1, Values{{"train/loss", 0.5}});
  trackio->log(1, Values{{"bad", std::nan("")}});
  trackio->text(1, "note", "hi");
  trackio->flush(Flush::kReadable);
  EXPECT_EQ(metrics(), Lines{});
  trackio->log(2, Values{{"train/loss", 0.25}});
  trackio->flush(Flush::kReadable);
  EXPECT_EQ(metrics(), (Lines{R"(run 1 {"bad":"NaN","note":"hi","train/loss":0.5})"}));
  trackio->finish(RunStatus::kFinished);
  EXPECT_EQ(metrics().size(), 2u);
}

TEST_F(TrackioTrackerTest, AnEvaluationAfterItsCheckpointIsRecordedOnce) {
  const auto first = tracker();
  first->log(2, Values{{"train/loss", 0.25}});
  first->flush(Flush::kDurable);
  const TrackerNames ids = first->ids();
  for (int life = 0; life < 2; ++life) {  // the first one ends before the next checkpoint
    const auto resumed = tracker(2, ids);
    resumed->log(2, Values{{"eval/loss", 0.75}});
    resumed->finish(RunStatus::kInterrupted);
  }
  EXPECT_EQ(metrics(), (Lines{R"(run 2 {"train/loss":0.25})", R"(run 2 {"eval/loss":0.75})"}));
}

TEST_F(TrackioTrackerTest, ResumeDropsLaterRowsOfThisRunOnly) {
  TrackerNames ids;
  {
    const auto other = tracker();
    other->log(7, Values{{"loss", 7}});
    other->finish(RunStatus::kFinished);
    const auto trackio = tracker();
    ids = trackio->ids();
    for (const int64_t step : {1, 2, 11}) trackio->log(step, Values{{"loss", 1}});
    trackio->finish(RunStatus::kInterrupted);
  }
  const auto trackio = tracker(2, ids);
  EXPECT_EQ(trackio->ids(), ids);
  trackio->log(3, Values{{"loss", 3}});
  trackio->finish(RunStatus::kFinished);
  EXPECT_EQ(metrics(), (Lines{R"(run 7 {"loss":7})", R"(run 1 {"loss":1})", R"(run 2 {"loss":1})",
                              R"(run 3 {"loss":3})"}));
}

TEST_F(TrackioTrackerTest, OptionsAreReplacedOnResume) {
  TrackerNames ids;
  {
    const auto trackio = tracker();
    ids = trackio->ids();
    trackio->config({{"lr", "0.1"}});
  }
  tracker(1, ids)->config({{"lr", "0.2"}});
  const Lines found = rows(path(), "SELECT config FROM configs");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("\"lr\":0.2"), std::string::npos);
}

TEST_F(TrackioTrackerTest, RowsThatCannotBeWrittenAreTriedAgain) {
  const auto trackio = tracker();
  sqlite3* other = nullptr;
  ASSERT_EQ(::sqlite3_open(path().c_str(), &other), SQLITE_OK);
  ASSERT_EQ(::sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  trackio->log(1, Values{{"loss", 1}});
  try {
    trackio->flush(Flush::kDurable);
    FAIL() << "a locked database was written";
  } catch (const IoError& error) {
    EXPECT_EQ(error.what(), "cannot write '" + path() + "': database is locked");
  }
  ::sqlite3_exec(other, "ROLLBACK", nullptr, nullptr, nullptr);
  ::sqlite3_close(other);
  trackio->log(2, Values{{"loss", 2}});
  trackio->flush(Flush::kDurable);
  EXPECT_EQ(metrics(), (Lines{R"(run 1 {"loss":1})", R"(run 2 {"loss":2})"}));
}

TEST_F(TrackioTrackerTest, AFileThatIsNoDatabaseIsAnIoError) {
  folder_.write("trackio/accel-run.db", "this is no database, whatever its name says it is");
  EXPECT_EQ(complaint<Tracker>("trackio", run_in(folder_.path())),
            "cannot write '" + path() + "': file is not a database");
}

TEST_F(TrackioTrackerTest, ProjectsAreNamedAsFilesAre) {
  EXPECT_EQ(complaint<Tracker>("type: trackio\nproject: ../up", run_in("")),
            "recipe.yaml:2:10: error: 'project' must be at most 64 letters, digits, '_' or '-', "
            "not '../up'\n"
            "    project: ../up\n"
            "             ^\n");
}

}  // namespace
}  // namespace accel::trackio_test
