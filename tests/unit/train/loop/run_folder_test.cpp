#include "train/loop/run_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/run_lock.h"
#include "core/base/error.h"
#include "tests/unit/checkpoint/memory_files.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::run_folder_test {
namespace {

/// The report on a folder that cannot be used.
template <class Act>
std::string complaint(const Act& act) {
  try {
    act();
    return "";
  } catch (const IoError& error) {
    EXPECT_EQ(error.hint(), "use a writable folder with free disk space");
    return error.what();
  }
}

TEST(RunFolderTest, IsMadeAndLeftEmpty) {
  const TempFolder folder;
  const std::string dir = folder.path() + "/a/b";
  DiskFiles files;
  check_run_folder(dir);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  make_run_folder(files, dir);
  try_run_folder(files, dir);
  EXPECT_TRUE(std::filesystem::is_directory(dir));
  EXPECT_TRUE(std::filesystem::is_empty(dir));
}

TEST(RunFolderTest, APipeInPlaceOfAFileIsRefused) {
  for (const std::string name : {"metrics.jsonl", "recipe.yaml", "logs/rank-0.log"}) {
    const TempFolder folder;
    std::filesystem::create_directories(folder.path("logs"));
    ASSERT_EQ(::mkfifo(folder.path(name).c_str(), 0600), 0);
    try {
      check_run_folder(folder.path());
      FAIL() << name;
    } catch (const IoError& error) {
      EXPECT_EQ(std::string(error.what()), "'" + folder.path(name) + "' is not a regular file");
      EXPECT_EQ(error.hint(), "remove it");
    }
  }
}

TEST(RunFolderTest, ALinkOfCheckpointsToNoFolderIsRefused) {
  for (const std::string name : {"checkpoints", "staging"}) {
    const TempFolder folder;
    std::filesystem::create_symlink("nowhere", folder.path(name));
    EXPECT_EQ(complaint([&] { check_run_folder(folder.path()); }),
              "the run folder '" + folder.path() + "' cannot be used: '" + folder.path(name) +
                  "' is not a folder");
  }
}

TEST(RunFolderTest, CheckpointsOnAnotherFileSystemAreRefused) {
  const TempFolder folder, beside;
  const std::string checkpoints = folder.path("checkpoints"), staging = folder.path("staging");
  std::filesystem::create_directory_symlink(beside.path(), checkpoints);
  EXPECT_NO_THROW(check_run_folder(folder.path()));
  std::filesystem::remove(checkpoints);
  std::filesystem::create_directory_symlink("/proc/self", checkpoints);
  try {
    check_run_folder(folder.path());
    FAIL();
  } catch (const IoError& error) {
    const std::string what = error.what();
    EXPECT_EQ(what, "'" + checkpoints + "' is on another file system than '" + staging + "'");
    EXPECT_EQ(error.hint(),
              "a save is renamed from one to the other: move the run folder as a whole, or link to "
              "it");
  }
  std::filesystem::create_directory_symlink("/proc/self", staging);
  EXPECT_NO_THROW(check_run_folder(folder.path()));
}

TEST(RunFolderTest, NewAndOldRunsGetTheFirstFreeName) {
  const TempFolder folder;
  const std::string dir = folder.path() + "/job";
  EXPECT_EQ(new_run_dir(dir), dir);
  EXPECT_EQ(old_run_dir(dir), dir + "-old");
  std::filesystem::create_directories(dir);
  std::filesystem::create_directories(dir + "-2");
  std::filesystem::create_directories(dir + "-old");
  EXPECT_EQ(new_run_dir(dir), dir + "-3");
  EXPECT_EQ(old_run_dir(dir), dir + "-old-2");
}

TEST(RunFolderTest, IsSetAsideWithAllThatIsInIt) {
  const TempFolder folder;
  const std::string dir = folder.path() + "/job";
  std::filesystem::create_directories(dir + "/logs");
  DiskFiles files;
  {
    const RunLock lock(dir);
    EXPECT_THROW(set_aside(files, dir, dir + "-old"), Error) << "a run is in it";
  }
  EXPECT_TRUE(std::filesystem::exists(dir + "/logs"));
  set_aside(files, dir, dir + "-old");
  EXPECT_FALSE(std::filesystem::exists(dir));
  EXPECT_TRUE(std::filesystem::exists(dir + "-old/logs"));
  std::filesystem::create_directories(dir);
  std::ofstream(dir + "-taken") << "x";
  try {
    set_aside(files, dir, dir + "-taken");
    ADD_FAILURE() << "a file is in the way";
  } catch (const IoError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("the old run cannot be kept: cannot rename "))
        << error.what();
    EXPECT_EQ(error.hint(), "move '" + dir + "' away by hand, or use --new");
  }
}

TEST(RunFolderTest, SurvivesAPowerLossWithAllThatIsAboveIt) {
  MemoryFiles files;
  files.make_dirs("/home");
  files.sync_dir("/");
  make_run_folder(files, "/home/runs/job");
  files.reboot();
  EXPECT_EQ(files.paths(), (std::vector<std::string>{"/home", "/home/runs", "/home/runs/job"}));
}

TEST(RunFolderTest, AFileInItsPlaceIsNamed) {
  const TempFolder folder;
  const std::string path = folder.path() + "/taken";
  std::ofstream(path) << "x";
  EXPECT_EQ(complaint([&] { check_run_folder(path + "/job"); }),
            "the run folder '" + path + "/job' cannot be used: '" + path + "' is not a folder");
  DiskFiles files;
  EXPECT_EQ(complaint([&] { make_run_folder(files, path); }),
            "the run folder '" + path + "' cannot be used: cannot make the folder '" + path +
                "': Not a directory");
}

TEST(RunFolderTest, ADiskThatTakesNoFileIsToldByName) {
  MemoryFiles files;
  make_run_folder(files, "/run");
  files.fail_call(2, ENOSPC);
  EXPECT_EQ(complaint([&] { try_run_folder(files, "/run"); }),
            "the run folder '/run' cannot be used: cannot write '/run/.probe': No space left on "
            "device");
}

}  // namespace
}  // namespace accel::run_folder_test
