#include "core/base/folders.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "core/base/append_file.h"
#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::folders_test {
namespace {

namespace fs = std::filesystem;

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

TEST(FoldersTest, FoldersAreMadeInTheRoot) {
  const TempFolder folder;
  make_folder_within(folder.path(), folder.path("a/b"));
  write_file_within(folder.path(), folder.path("a/c/file"), "text");
  make_folder_within(folder.path(), folder.path());
  EXPECT_TRUE(fs::is_directory(folder.path("a/b")));
  EXPECT_EQ(file_content(folder.path("a/c/file")), "text");
}

TEST(FoldersTest, TheRootIsNot) {
  const TempFolder folder;
  const std::string root = folder.path("run");
  const std::string wanted = "cannot make the folder '" + root + "/a': No such file or directory";
  EXPECT_EQ(refusal([&] { make_folder_within(root, root + "/a"); }), wanted);
  EXPECT_EQ(refusal([&] { write_file_within(root, root + "/a/file", "text"); }), wanted);
  EXPECT_EQ(refusal([&] { AppendFile file(root + "/file"); }),
            "cannot open '" + root + "/file': No such file or directory");
  EXPECT_FALSE(fs::exists(root));
}

}  // namespace
}  // namespace accel::folders_test
