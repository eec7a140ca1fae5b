#include "core/base/scratch_file.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::scratch_file_test {
namespace {

constexpr size_t kBlock = ScratchFile::kBlock;

/// Memory whose address direct I/O takes.
class Blocks {
 public:
  explicit Blocks(size_t bytes, unsigned char value = 0)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(kBlock, bytes)), &std::free),
        bytes_(bytes) {
    for (size_t i = 0; i < bytes; ++i) span()[i] = static_cast<std::byte>(value + i / 7);
  }
  std::span<std::byte> span() const { return {memory_.get(), bytes_}; }

 private:
  std::unique_ptr<std::byte, void (*)(void*)> memory_;
  size_t bytes_;
};

bool equal(const Blocks& a, const Blocks& b) {
  return std::equal(a.span().begin(), a.span().end(), b.span().begin());
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const IoError& error) {
    return std::string(error.what()) + "; " + error.hint();
  }
  return "";
}

TEST(ScratchFileTest, KeepsWhatIsWrittenAndHasNoName) {
  const TempFolder folder;
  ScratchFile file(folder.path());
  EXPECT_EQ(file.grow(4 * kBlock), 0);
  EXPECT_EQ(file.grow(2 * kBlock), static_cast<int64_t>(4 * kBlock));
  EXPECT_EQ(file.bytes(), static_cast<int64_t>(6 * kBlock));
  const Blocks written(2 * kBlock, 3), other(4 * kBlock, 9), read(2 * kBlock);
  file.write(0, other.span());
  file.write(4 * kBlock, written.span());
  file.read(4 * kBlock, read.span());
  EXPECT_TRUE(equal(read, written));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ScratchFileTest, ShortReadsAndWritesContinue) {
  const TempFolder folder;
  int calls = 0;
  ScratchCalls slow;
  slow.write = [&](int fd, const void* from, size_t bytes, off_t offset) -> ssize_t {
    if (calls++ == 1) {
      errno = EINTR;
      return -1;
    }
    // Ends within a block, which direct I/O cannot continue.
    return ::pwrite(fd, from, std::min(bytes, kBlock), offset) + (bytes > kBlock ? 100 : 0);
  };
  slow.read = [&](int fd, void* to, size_t bytes, off_t offset) {
    ++calls;
    return ::pread(fd, to, std::min(bytes, kBlock), offset);
  };
  ScratchFile file(folder.path(), slow);
  if (!file.is_direct()) GTEST_SKIP() << "no direct I/O here";
  file.grow(3 * kBlock);
  const Blocks written(3 * kBlock, 5), read(3 * kBlock);
  file.write(0, written.span());
  EXPECT_EQ(calls, 4);
  file.read(0, read.span());
  EXPECT_EQ(calls, 7);
  EXPECT_TRUE(equal(read, written));
}

TEST(ScratchFileTest, FailuresNameTheFolderAndTheRemedy) {
  const TempFolder folder;
  const std::string path = folder.path();
  ScratchCalls bad;
  int error = EIO;
  bad.write = [&](int, const void*, size_t, off_t) -> ssize_t {
    errno = error;
    return -1;
  };
  bad.read = [](int, void*, size_t, off_t) -> ssize_t { return 0; };
  bad.reserve = [](int, off_t offset, off_t) { return offset > 0 ? ENOSPC : 0; };
  ScratchFile file(path, bad);
  file.grow(1 << 30);
  const Blocks some(kBlock);
  const std::string hint = "check the disk, or set 'accelerator.fsdp.offload_path' to another";
  EXPECT_EQ(refusal([&] { file.write(0, some.span()); }),
            "cannot write the scratch file in '" + path + "': Input/output error; " + hint);
  EXPECT_EQ(refusal([&] { file.read(0, some.span()); }),
            "cannot read the scratch file in '" + path + "': Input/output error; " + hint);
  error = ENOSPC;
  EXPECT_TRUE(
      refusal([&] {
        file.write(0, some.span());
      }).starts_with("cannot write the scratch file in '" + path + "': No space left on device; "));
  const std::string full = refusal([&] { file.grow(int64_t{3} << 30); });
  EXPECT_TRUE(full.starts_with("cannot reserve scratch space in '" + path +
                               "' for offload: No space left on device; 1.00 GiB are reserved, "
                               "3.00 GiB more are needed, "))
      << full;
  EXPECT_TRUE(full.ends_with(
      " are free; free disk space, set 'accelerator.fsdp.offload_path' to a larger disk, or train "
      "with more ranks"))
      << full;
  EXPECT_EQ(file.bytes(), 1 << 30) << "nothing is reserved by a failure";
}

TEST(ScratchFileTest, FoldersThatCannotHoldItAreRefused) {
  const TempFolder folder;
  EXPECT_EQ(refusal([&] { ScratchFile(folder.path("none")); }),
            "cannot use '" + folder.path("none") +
                "' for scratch: No such file or directory; create the folder, or set "
                "'accelerator.fsdp.offload_path' to one on a fast local disk");
  if (!std::filesystem::is_directory("/dev/shm")) return;
  EXPECT_EQ(refusal([] { ScratchFile("/dev/shm"); }),
            "'/dev/shm' is in memory (tmpfs), which offload is to save; set "
            "'accelerator.fsdp.offload_path' to a folder on a disk");
}

}  // namespace
}  // namespace accel::scratch_file_test
