#include "core/base/append_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::append_file_test {
namespace {

TEST(AppendFileTest, BytesOfAFailedWriteStayBuffered) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  AppendFile file("/dev/full");
  file.append("kept");
  EXPECT_THROW(file.flush(), IoError);
  EXPECT_THROW(file.flush(), IoError);  // still there
}

/// A disk on which files may not grow, while it lives.
class FullDisk {
 public:
  FullDisk() : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none = {0, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_ = {};
  void (*handler_)(int);
};

TEST(AppendFileTest, BufferOfAFullDiskIsBounded) {
  const TempFolder folder;
  AppendFile file(folder.path("log"));
  const std::string megabyte(1 << 20, 'x');
  int refused = 0;
  {
    const FullDisk full;
    for (int i = 0; i < 20; ++i) {
      try {
        file.append(megabyte);
      } catch (const IoError&) {
        ++refused;
      }
    }
  }
  EXPECT_EQ(refused, 20) << "each append fails";
  file.append("end");
  file.flush();
  const std::string content = file_content(folder.path("log"));
  EXPECT_EQ(content.size(), AppendFile::kMaxPending + 3);
  EXPECT_TRUE(content.ends_with("xend"));
}

}  // namespace
}  // namespace accel::append_file_test
