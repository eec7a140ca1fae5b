// The shared library of Arrow, for the SetUp() of tests that read Parquet and Arrow files.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace accel {

/// Opens it. A build with Arrow fails without it; another one skips the test.
inline void open_arrow_library() {
  if (::dlopen("libaccel_arrow.so", RTLD_NOW | RTLD_LOCAL)) return;
#ifdef ACCEL_HAS_ARROW
  FAIL() << ::dlerror();
#else
  GTEST_SKIP() << ::dlerror();
#endif
}

}  // namespace accel
