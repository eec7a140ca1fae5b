// The files of a URL: numbers in braces and listings. Requests are those of smoke_streaming.
#include "data/store/streamed_files.h"

#include <gtest/gtest.h>

#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::streamed_files_test {
namespace {

TEST(StreamedFilesTest, WrongNamesAreRefused) {
  const TempFolder folder;
  StreamingSection options;
  options.local = {FilePath{folder.path("c")}};
  const auto refusal = [&](const std::string& url, const std::string& extension) {
    return complaint([&] { stream_files(url, extension, options); });
  };
  for (const std::string name : {"a-{3..}.tar", "a-{3..2}.tar", "a-{x..2}.tar", "a-{3-4}.tar"}) {
    EXPECT_EQ(refusal("https://h/d/" + name, ".tar"), "'" + name +
                                                          "' has no range of numbers in braces\n"
                                                          "write 'shard-{000000..000099}.tar'");
  }
  EXPECT_EQ(refusal("https://h/d", ".parquet"),
            "the server of 'https://h/d' lists no files\n"
            "name the files, such as '.../shard-{000000..000099}.parquet'");
}

}  // namespace
}  // namespace accel::streamed_files_test
