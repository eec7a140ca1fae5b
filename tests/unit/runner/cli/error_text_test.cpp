#include "runner/cli/error_text.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

#include "core/base/files.h"

namespace accel::error_text_test {
namespace {

TEST(ErrorTextTest, WhatIsNoErrorOfOursIsToldAlike) {
  const std::runtime_error torch("shape\nException raised from here\nframe #0: there");
  EXPECT_EQ(error_text(torch), "error: shape\n");
  EXPECT_EQ(error_text(torch, true), "{\"severity\": \"error\", \"message\": \"shape\"}\n");
  EXPECT_EQ(error_text(std::bad_alloc()),
            "error: out of memory\n  hint: lower 'train.micro_batch' or the size of the model\n");
  EXPECT_EQ(error_text(std::bad_alloc(), true),
            "{\"severity\": \"error\", \"message\": \"out of memory\", \"hint\": \"lower "
            "'train.micro_batch' or the size of the model\"}\n");
}

TEST(ErrorTextTest, AThreadThatDoesNotStartIsAMemoryError) {
  const std::system_error error(std::make_error_code(std::errc::resource_unavailable_try_again));
  EXPECT_EQ(error_text(error),
            "error: cannot start a thread: Resource temporarily unavailable\n  hint: raise 'ulimit "
            "-u' and 'ulimit -v', or set a smaller 'accelerator.num_cpu_threads_per_process'\n");
  EXPECT_EQ(exit_code_of(error), ExitCode::kMemory);
  EXPECT_EQ(exit_code_of(FileError("lock", "a", EAGAIN)), ExitCode::kOther);
}

TEST(ErrorTextTest, LinesThatDoNotFitAreLeftOut) {
  const std::string two = "{\"a\": 1}\n{\"b\": 2}\n";
  EXPECT_EQ(whole_lines(two, two.size()), two);
  EXPECT_EQ(whole_lines(two, two.size() - 1), "{\"a\": 1}\n");
  EXPECT_EQ(whole_lines("{\"message\": \"" + std::string(500, 'x') + "\"}\n", 80),
            "{\"severity\": \"error\", \"message\": \"an error message is too long; it begins with "
            "{\\\"message\\\": \\\"xxxxxxx\"}\n");
}

}  // namespace
}  // namespace accel::error_text_test
