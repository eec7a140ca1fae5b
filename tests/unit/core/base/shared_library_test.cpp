#include "core/base/shared_library.h"

#include <gtest/gtest.h>

namespace accel::shared_library_test {
namespace {

TEST(SharedLibraryTest, FindsFunctionsByName) {
  SharedLibrary library("libm.so.6");
  double (*cosine)(double) = nullptr;
  ASSERT_TRUE(library && library.find("cos", cosine)) << library.error();
  EXPECT_EQ(cosine(0), 1);
  EXPECT_EQ(library.error(), "");
  void (*missing)() = nullptr;
  EXPECT_FALSE(library.find("no_such_function", missing));
  EXPECT_EQ(missing, nullptr);
  EXPECT_NE(library.error().find("no_such_function"), std::string::npos);
}

TEST(SharedLibraryTest, MissingLibraryHasAnErrorAndNoFunctions) {
  SharedLibrary library("libno-such-library.so");
  EXPECT_FALSE(library);
  EXPECT_NE(library.error().find("libno-such-library.so"), std::string::npos);
  void (*missing)() = nullptr;
  EXPECT_FALSE(library.find("cos", missing));
}

}  // namespace
}  // namespace accel::shared_library_test
