#include "checkpoint/bus_guard.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/folder_reader.h"
#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::bus_guard_test {
namespace {

void sum(void* argument) {
  auto& bytes = *static_cast<ByteSpan*>(argument);
  int total = 0;
  for (const std::byte one : bytes) total += static_cast<int>(one);
  EXPECT_EQ(total, 'x' * static_cast<int>(bytes.size()));
}

TEST(BusGuardTest, AFileThatShrinksIsAFailureAndNotTheEnd) {
  const TempFolder folder;
  const std::string path = folder.write("file", std::string(3 * 4096, 'x'));
  DiskFiles files;
  const SharedBytes file = files.read(path);
  ByteSpan all = file.view;
  EXPECT_TRUE(survives_bus_error(&sum, &all));
  std::filesystem::resize_file(path, 4096);
  EXPECT_FALSE(survives_bus_error(&sum, &all));
  EXPECT_FALSE(survives_bus_error(&sum, &all));
  ByteSpan first = file.view.first(4096);
  EXPECT_TRUE(survives_bus_error(&sum, &first));
}

TEST(BusGuardTest, OneElsewhereEndsTheProcessWithAMessage) {
  const auto fail = [] {
    const TempFolder folder;
    const std::string path = folder.write("file", std::string(2 * 4096, 'x'));
    DiskFiles files;
    const SharedBytes file = files.read(path);
    ByteSpan all = file.view;
    survives_bus_error(&sum, &all);
    std::filesystem::resize_file(path, 0);
    sum(&all);
  };
  EXPECT_EXIT(
      fail(), testing::ExitedWithCode(7),
      "^error: SIGBUS: a mapped file has shrunk, its disk failed, or shared memory is full\n"
      "  hint: look at the disk and at other programs that write to the run's files, and "
      "start again\n$");
}

/// A disk whose files shrink as soon as they are mapped.
class ShrinkingFiles final : public Files {
 public:
  SharedBytes read(const std::string& path) override {
    SharedBytes file = disk_.read(path);
    std::filesystem::resize_file(path, 0);
    return file;
  }
  std::unique_ptr<OutputFile> create(const std::string& path) override {
    return disk_.create(path);
  }
  void make_dirs(const std::string& path, const std::string& within) override {
    disk_.make_dirs(path, within);
  }
  void sync_dir(const std::string& path) override { disk_.sync_dir(path); }
  void rename(const std::string& from, const std::string& to) override { disk_.rename(from, to); }
  void remove_tree(const std::string& path) override { disk_.remove_tree(path); }
  std::vector<DirEntry> list(const std::string& path) override { return disk_.list(path); }
  int64_t free_space(const std::string& path) override { return disk_.free_space(path); }

 private:
  DiskFiles disk_;
};

TEST(BusGuardTest, ACheckpointThatTheDiskCannotGiveIsDamaged) {
  const TempFolder folder;
  folder.write("optimizer.bin", std::string(2 * 4096, 'x'));
  ShrinkingFiles files;
  std::string complaint;
  try {
    FolderReader(files, folder.path()).bytes("optimizer.bin");
  } catch (const CheckpointError& error) {
    complaint = error.what();
  }
  EXPECT_EQ(complaint, "checkpoint '" + folder.path() +
                           "' is damaged: 'optimizer.bin' cannot be read: the disk failed, or it "
                           "has shrunk");
}

}  // namespace
}  // namespace accel::bus_guard_test
