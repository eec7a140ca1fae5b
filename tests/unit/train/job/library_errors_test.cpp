#include "train/job/library_errors.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <stdexcept>

#include "core/recipe/located_error.h"

namespace accel::library_errors_test {
namespace {

struct Thrown {
  ExitCode code = ExitCode::kDone;
  std::string what;
  std::string hint;
  Span where;
};

Thrown thrown_by(const std::function<void()>& check) {
  try {
    check();
  } catch (const LocatedError& error) {
    return {error.code(), error.what(), error.hint(), error.problem().where};
  } catch (const Error& error) {
    return {error.code(), error.what(), error.hint(), {}};
  }
  return {};
}

Thrown step_error(const std::exception& error) {
  Job job;
  job.batches.micro_batch = 4;
  job.resolved = parse_recipe("recipe.yaml", "train:\n  micro_batch: 4\n");
  return thrown_by([&] { check_step_error(job, 3, error); });
}

TEST(StepErrorsTest, ErrorsOfLibraries) {
  const Thrown memory = step_error(std::bad_alloc());
  EXPECT_EQ(memory.what,
            "step 3: a micro-batch of 4 samples does not fit into memory: an allocation failed");
  EXPECT_EQ(memory.hint, "lower 'train.micro_batch', or make the model or the samples smaller");
  EXPECT_EQ(memory.code, ExitCode::kMemory);
  EXPECT_EQ(memory.where.line, 2);
  const Thrown range =
      step_error(std::runtime_error("value cannot be converted to type float without overflow"));
  EXPECT_EQ(range.what,
            "step 3: a number is beyond the range of its tensor: value cannot be converted to type "
            "float without overflow");
  EXPECT_EQ(range.code, ExitCode::kDiverged);
  const Thrown norm = step_error(std::invalid_argument(
      "Expected more than 1 value per channel when training, got input size [1, 8]"));
  EXPECT_EQ(norm.what,
            "step 3: batch norm needs several values per channel, but a micro-batch has one: "
            "Expected more than 1 value per channel when training, got input size [1, 8]");
  EXPECT_EQ(norm.hint, "raise 'train.micro_batch', or set 'data.loader.drop_last'");
  EXPECT_EQ(norm.code, ExitCode::kData);
  EXPECT_EQ(norm.where.line, 2);
  const Thrown torch =
      step_error(c10::Error(c10::SourceLocation{"run", "shape.cpp", 1}, "a shape"));
  EXPECT_EQ(torch.what, "step 3: libtorch refuses an operation: a shape");
  EXPECT_EQ(torch.code, ExitCode::kOther);
}

TEST(StepErrorsTest, OtherErrorsStay) {
  EXPECT_EQ(step_error(DataError("a row")).code, ExitCode::kDone);
  EXPECT_EQ(step_error(std::logic_error("a bug")).code, ExitCode::kDone);
}

Thrown size_error(const std::exception& error) {
  const Node recipe =
      parse_recipe("recipe.yaml",
                   "model:\n  type: mlp\n  hidden_sizes: [8, 900]\n  name: '1000'\n  inputs: 9\n");
  return thrown_by([&] { check_size_failure(error, "the model 'mlp'", recipe, "model"); });
}

TEST(SizeErrorTest, NamesTheLargestNumberOfTheSection) {
  const Thrown bytes = size_error(
      std::runtime_error("can't allocate memory: you tried to allocate 42 bytes. Error"));
  EXPECT_EQ(bytes.what, "the model 'mlp' does not fit into memory: 42 bytes cannot be allocated");
  EXPECT_EQ(bytes.hint, "lower 'model.hidden_sizes', the largest number of 'model'");
  EXPECT_EQ(bytes.where.line, 3);
  EXPECT_EQ(bytes.where.column, 21);
  EXPECT_EQ(
      size_error(std::runtime_error("Storage size calculation overflowed with sizes=[8, 9]\n"))
          .what,
      "the model 'mlp' does not fit into memory: a tensor of the shape [8, 9] has 2^63 bytes or "
      "more");
  EXPECT_EQ(size_error(std::runtime_error("another")).code, ExitCode::kDone);
}

}  // namespace
}  // namespace accel::library_errors_test
