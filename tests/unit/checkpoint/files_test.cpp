// The real files and their double keep the same promises.
#include "core/base/files.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/store.h"
#include "tests/unit/checkpoint/memory_files.h"
#include "tests/unit/checkpoint/small_state.h"

namespace accel::files_test {
namespace {

class FilesTest : public testing::TestWithParam<bool> {
 protected:
  FilesTest() {
    std::string pattern = testing::TempDir() + "files_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    memory_.make_dirs(folder_);
  }
  ~FilesTest() override { std::filesystem::remove_all(folder_); }

  Files& files() {
    if (GetParam()) return disk_;
    return memory_;
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  void put(const std::string& name, const std::string& text) {
    const auto file = files().create(path(name));
    file->write(as_bytes(text));
    file->sync();
    file->close();
  }

  std::string complaint(const std::function<void()>& act) {
    try {
      act();
      return "";
    } catch (const FileError& error) {
      const std::string text = error.what();
      const size_t at = text.find(folder_);
      return at == text.npos ? text : text.substr(0, at) + text.substr(at + folder_.size() + 1);
    }
  }

  std::string folder_;
  DiskFiles disk_;
  MemoryFiles memory_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, FilesTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Disk" : "Memory"; });

TEST_P(FilesTest, WhatIsWrittenIsRead) {
  const std::string text(100'000, 'x');
  put("a", text);
  const SharedBytes read = files().read(path("a"));
  EXPECT_EQ(as_text(read.view), text);
}

TEST_P(FilesTest, CreateNeverReplaces) {
  put("a", "1");
  EXPECT_EQ(complaint([&] { files().create(path("a")); }), "cannot create 'a': File exists");
}

TEST_P(FilesTest, MissingThingsAreNamed) {
  EXPECT_EQ(complaint([&] { files().read(path("a")); }),
            "cannot read 'a': No such file or directory");
  EXPECT_EQ(complaint([&] { files().create(path("x/a")); }),
            "cannot create 'x/a': No such file or directory");
  EXPECT_EQ(complaint([&] { files().rename(path("a"), path("b")); }),
            "cannot rename 'a': No such file or directory");
  EXPECT_EQ(complaint([&] { files().sync_dir(path("x")); }),
            "cannot sync 'x': No such file or directory");
  EXPECT_EQ(complaint([&] { files().remove_tree(path("a")); }), "");
  EXPECT_TRUE(files().list(path("x")).empty());
}

TEST_P(FilesTest, ListSaysNameKindAndSizeInOrder) {
  put("b", "12345");
  files().make_dirs(path("a/deep"));
  const std::vector<DirEntry> entries = files().list(folder_);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(entries[0].kind, DirEntry::Kind::kFolder);
  EXPECT_EQ(entries[1].name, "b");
  EXPECT_EQ(entries[1].kind, DirEntry::Kind::kFile);
  EXPECT_EQ(entries[1].bytes, 5);
}

TEST_P(FilesTest, RenameMovesATreeButNotOntoAFullFolder) {
  files().make_dirs(path("a"));
  files().make_dirs(path("b"));
  put("a/x", "1");
  put("b/y", "2");
  EXPECT_EQ(complaint([&] { files().rename(path("a"), path("b")); }),
            "cannot rename 'a': Directory not empty");
  files().rename(path("a"), path("c"));
  EXPECT_EQ(as_text(files().read(path("c/x")).view), "1");
  EXPECT_EQ(files().list(folder_).size(), 2U);
}

TEST_P(FilesTest, RemoveTreeTakesAllOfIt) {
  files().make_dirs(path("a/b"));
  put("a/b/x", "1");
  files().remove_tree(path("a"));
  EXPECT_TRUE(files().list(folder_).empty());
}

TEST_P(FilesTest, MakingAFolderTwiceIsFine) {
  files().make_dirs(path("a/b"));
  files().make_dirs(path("a/b"));
  EXPECT_GT(files().free_space(path("a")), 0);
}

TEST_P(FilesTest, AParentThatMustExistIsNotMade) {
  files().make_dirs(path("run"));
  files().make_dirs(path("run/a/b"), path("run"));
  put("run/a/b/x", "1");
  EXPECT_EQ(complaint([&] { files().make_dirs(path("gone/a"), path("gone")); }),
            "cannot make the folder 'gone/a': No such file or directory");
  EXPECT_EQ(files().list(folder_).size(), 1U);
}

TEST_P(FilesTest, AStoreWorksOnThem) {
  CheckpointStore store(files(), folder_);
  store.save(small_state(1));
  store.save(small_state(2));
  store.retain({.last = 1});
  EXPECT_EQ(store.load_newest()->path, folder_ + "/checkpoints/checkpoint_2");
  EXPECT_EQ(text_of(store.load_newest()->state), text_of(small_state(2)));
  EXPECT_EQ(store.list().size(), 1U);
}

class DiskFilesTest : public FilesTest {};
INSTANTIATE_TEST_SUITE_P(Kinds, DiskFilesTest, testing::Values(true));

TEST_P(DiskFilesTest, WhatSomebodyRemovesMeanwhileIsNoFault) {
  std::atomic<bool> stop = false;
  const std::jthread others([&] {
    while (!stop) {
      std::filesystem::create_directory(path("theirs"));
      std::filesystem::remove(path("theirs"));
    }
  });
  for (int i = 0; i < 5000; ++i) EXPECT_NO_THROW(files().list(folder_));
  stop = true;
}

TEST_P(DiskFilesTest, LinksAreFollowedForReadingAlone) {
  put("target", "1");
  std::filesystem::create_symlink(path("target"), path("link"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(as_text(files().read(path("link")).view), "1");
  EXPECT_EQ(complaint([&] { files().read(path("pipe")); }), "cannot read 'pipe': Invalid argument");
  EXPECT_EQ(complaint([&] { files().create(path("link")); }), "cannot create 'link': File exists");
  files().make_dirs(path("folder"));
  std::filesystem::create_symlink(path("folder"), path("folder_link"));
  files().sync_dir(path("folder_link"));  // a run folder may lie on another disk
  for (const DirEntry& entry : files().list(folder_)) {
    if (entry.name == "target" || entry.name == "folder") continue;
    EXPECT_EQ(entry.kind, DirEntry::Kind::kOther) << entry.name;
  }
}

}  // namespace
}  // namespace accel::files_test
