#include "runner/loop/run_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel {
namespace {

TEST(RunFolderTest, IsMadeAndLeftEmpty) {
  const TempFolder folder;
  const std::string dir = folder.path() + "/a/b";
  prepare_run_folder(dir);
  EXPECT_TRUE(std::filesystem::is_directory(dir));
  EXPECT_TRUE(std::filesystem::is_empty(dir));
}

TEST(RunFolderTest, AFileInItsPlaceIsNamed) {
  const TempFolder folder;
  const std::string path = folder.path() + "/taken";
  std::ofstream(path) << "x";
  try {
    prepare_run_folder(path);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("the run folder '" + path + "' cannot be used"),
              std::string::npos);
    EXPECT_EQ(error.hint(), "run in a folder with free space that you may write to");
  }
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
