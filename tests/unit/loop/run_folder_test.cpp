#include "runner/loop/run_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "tests/unit/checkpoint/memory_files.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel {
namespace {

/// What is told of a folder that cannot be used.
template <class Act>
std::string complaint(const Act& act) {
  try {
    act();
    return "";
  } catch (const IoError& error) {
    EXPECT_EQ(error.hint(), "run in a folder with free space that you may write to");
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
            "the run folder '" + path + "/job' cannot be used: '" + path + "' is no folder");
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
            "the run folder '/run' cannot be used: cannot write '/run/.probe.new': No space left "
            "on device");
}

TEST(RunFolderTest, AWholeFileReplacesTheOldOne) {
  const TempFolder folder;
  const std::string path = folder.path() + "/recipe.yaml";
  write_whole(path, "one");
  write_whole(path, "two");
  std::ifstream in(path);
  std::string text;
  in >> text;
  EXPECT_EQ(text, "two");
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
}

}  // namespace
}  // namespace accel
