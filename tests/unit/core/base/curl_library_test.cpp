#include "core/base/curl_library.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::curl_library_test {
namespace {

std::string curl_complaint(const char* file) {
  return complaint([&] { load_curl(file, "a download", "copy the files by other means"); });
}

TEST(CurlLibraryTest, AMissingLibraryNamesItsUserAndTheAlternative) {
  EXPECT_EQ(curl_complaint("libno-such.so.4"),
            "a download needs libcurl, which cannot be loaded: libno-such.so.4: cannot open shared "
            "object file: No such file or directory\n"
            "install libcurl (Debian, Ubuntu: libcurl4), or copy the files by other means");
}

TEST(CurlLibraryTest, AnotherLibraryIsRefused) {
  const std::string found = curl_complaint("libm.so.6");
  EXPECT_TRUE(found.starts_with("libcurl has no function 'curl_global_init': ")) << found;
  EXPECT_TRUE(
      found.ends_with("undefined symbol: curl_global_init\n"
                      "install libcurl 7.68 or later (Debian, Ubuntu: libcurl4)"))
      << found;
}

TEST(CurlLibraryTest, AFailedInitializationIsAnError) {
  EXPECT_EQ(curl_complaint(BROKEN_CURL), "libcurl cannot be initialized: Out of memory (27)");
}

}  // namespace
}  // namespace accel::curl_library_test
