#include "core/base/regular_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "core/base/append_file.h"
#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::regular_file_test {
namespace {

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const IoError& error) {
    return std::string(error.what()) + "; " + error.hint();
  }
  return "";
}

TEST(RegularFileTest, APipeIsRefusedAndNeverOpened) {
  const TempFolder folder;
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string wanted = "'" + pipe + "' is not a regular file; remove it";
  EXPECT_EQ(refusal([&] { require_regular_file(pipe); }), wanted);
  EXPECT_EQ(refusal([&] { AppendFile file(pipe); }), wanted);
  EXPECT_FALSE(open_regular_file(pipe));
}

TEST(RegularFileTest, FilesAndLinksToThemAreOpened) {
  const TempFolder folder;
  folder.write("file", "text");
  std::filesystem::create_symlink(folder.path("file"), folder.path("link"));
  for (const char* name : {"file", "link"}) {
    require_regular_file(folder.path(name));
    std::string word;
    open_regular_file(folder.path(name)) >> word;
    EXPECT_EQ(word, "text");
  }
  require_regular_file(folder.path("missing"));
  EXPECT_FALSE(open_regular_file(folder.path("missing")));
  EXPECT_EQ(refusal([&] { require_regular_file(folder.path(".")); }),
            "'" + folder.path(".") + "' is not a regular file; remove it");
}

}  // namespace
}  // namespace accel::regular_file_test
