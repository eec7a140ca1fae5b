#include "core/base/files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::files_test {
namespace {

namespace fs = std::filesystem;

size_t entries_in(const std::string& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

std::string io_error_of(const std::function<void()>& act) {
  try {
    act();
    return "";
  } catch (const IoError& error) {
    return error.what();
  }
}

TEST(AtomicWriteTest, ReplacesTheFileAndLeavesNoDraft) {
  const TempFolder folder;
  const std::string path = folder.path("recipe.yaml");
  write_file_atomically(path, "one");
  write_file_atomically(path, "two");
  EXPECT_EQ(file_content(path), "two");
  EXPECT_EQ(entries_in(folder.path()), 1u);
}

TEST(AtomicWriteTest, SmallAndLargeWritesKeepTheirOrder) {
  const TempFolder folder;
  const std::string path = folder.path("table"), large(100'000, 'x');
  write_file_atomically(path, [&](const ByteSink& write) {
    for (const std::string& piece : {std::string("a"), large, std::string("b")}) {
      write(as_bytes(piece));
    }
  });
  EXPECT_EQ(file_content(path), "a" + large + "b");
}

TEST(AtomicWriteTest, FailureOfTheWriterKeepsTheOldFile) {
  const TempFolder folder;
  folder.write("table", "old");
  EXPECT_THROW(write_file_atomically(folder.path("table"),
                                     [](const ByteSink& write) {
                                       write(as_bytes("ne"));
                                       throw IoError("the disk is full");
                                     }),
               IoError);
  EXPECT_EQ(file_content(folder.path("table")), "old");
  EXPECT_EQ(entries_in(folder.path()), 1u);
}

TEST(AtomicWriteTest, MissingFolderIsAnErrorOrCreated) {
  const TempFolder folder;
  const std::string path = folder.path("a/b/file");
  EXPECT_EQ(io_error_of([&] { write_file_atomically(path, "x"); }),
            "cannot write '" + path + "': No such file or directory");
  write_file_with_folder(path, "x");
  EXPECT_EQ(file_content(path), "x");
}

TEST(PublishFileTest, FilesAndFoldersAreRenamed) {
  const TempFolder folder;
  publish_file(folder.write("file.new", "x"), folder.path("file"));
  EXPECT_EQ(file_content(folder.path("file")), "x");
  folder.write("folder.new/file", "y");
  publish_file(folder.path("folder.new"), folder.path("folder"));
  EXPECT_EQ(file_content(folder.path("folder/file")), "y");
  EXPECT_EQ(io_error_of([&] { publish_file(folder.path("none"), folder.path("file")); }),
            "cannot write '" + folder.path("file") + "': No such file or directory");
}

}  // namespace
}  // namespace accel::files_test
