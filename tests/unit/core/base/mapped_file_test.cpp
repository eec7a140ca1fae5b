#include "core/base/mapped_file.h"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::mapped_file_test {
namespace {

TEST(MappedFileTest, TheMapOutlivesTheFile) {
  const TempFolder folder;
  const std::string path = folder.write("a.bin", "some bytes");
  const SharedBytes file = map_file(path);
  std::filesystem::remove(path);
  EXPECT_EQ(file.view.size(), 10u);
  EXPECT_EQ(file.view[5], std::byte{'b'});
}

TEST(MappedFileTest, AnEmptyFileIsAnEmptyView) {
  const TempFolder folder;
  EXPECT_TRUE(map_file(folder.write("a.bin", "")).view.empty());
}

TEST(MappedFileTest, WhatIsNoRegularFileIsRefused) {
  const TempFolder folder;
  const std::string missing = folder.path("missing");
  EXPECT_EQ(
      complaint([&] { map_file(missing); }),
      "no file '" + missing + "'\nrelative paths are resolved from the folder of the recipe file");
  const std::string inside_file = folder.write("file", "x") + "/a";
  EXPECT_EQ(complaint([&] { map_file(inside_file); }).substr(0, 7), "no file");
  const std::string itself = folder.path("");
  EXPECT_EQ(complaint([&] { map_file(itself); }), "'" + itself + "' is a folder, not a file");
  const std::string fifo = folder.path("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(complaint([&] { map_file(fifo); }), "'" + fifo + "' is not a regular file");
}

}  // namespace
}  // namespace accel::mapped_file_test
