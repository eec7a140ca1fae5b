#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/api/task.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/tasks/fake_models.h"

namespace accel::distill_test {
namespace {

/// Scores two classes, the second as its input says.
class Teacher final : public Model {
 public:
  static constexpr auto kName = "teacher_of_two";
  static constexpr auto kSummary = "For tests.";
  struct Options {
    int64_t classes = 2;
  };
  static Schema<Options> schema() {
    return Schema<Options>().field("classes", &Options::classes, "Classes.");
  }
  explicit Teacher(const Options& options) : classes_(options.classes) {}

  at::Tensor forward(const at::Tensor& inputs) override {
    return inputs.narrow(1, 0, 1).mul(at::tensor({0.0F, 1.0F, 2.0F}).narrow(0, 0, classes_));
  }
  torch::nn::Module& module() override { throw std::logic_error("a fake has no module"); }
  const char* default_task() const override { return "classification"; }

 private:
  int64_t classes_;
};
const Register<Teacher> teacher_of_two;

std::unique_ptr<Task> distill(const std::string& more) {
  return build<Task>("{type: distill, teacher: teacher_of_two, " + more + "}");
}

/// The student's scores are the inputs.
Batch one_sample() {
  return numbered_batch(at::tensor({1.0F, 3.0F}).view({1, 2}), at::tensor({int64_t{1}}));
}

double likely(double a, double b) {
  return 1 / (1 + std::exp(b - a));
}

TEST(DistillTest, TheLossIsTheLabelsAndTheTeachersInTheirShares) {
  EchoModel student;
  const double labels = -std::log(likely(3, 1));
  // The teacher's scores are 0 and 1.
  const double t = 2, p = likely(1 / t, 0), q = likely(3 / t, 1 / t);
  const double likeness = t * t * (p * std::log(p / q) + (1 - p) * std::log((1 - p) / (1 - q)));
  EXPECT_NEAR(distill("temperature: 2, alpha: 0")->loss(student, one_sample()).item<double>(),
              labels, 1e-6);
  EXPECT_NEAR(distill("temperature: 2, alpha: 1")->loss(student, one_sample()).item<double>(),
              likeness, 1e-6);
  EXPECT_NEAR(distill("temperature: 2, alpha: 0.25")->loss(student, one_sample()).item<double>(),
              0.75 * labels + 0.25 * likeness, 1e-6);
}

TEST(DistillTest, EvaluationIsAgainstTheLabelsAlone) {
  EchoModel student;
  EXPECT_NEAR(distill("alpha: 0.9")->evaluate(student, one_sample()).loss.item<double>(),
              -std::log(likely(3, 1)), 1e-6);
}

TEST(DistillTest, TheTeacherIsNotTrainedAndNotSaved) {
  const auto task = distill("alpha: 0.5");
  ASSERT_EQ(task->models().size(), 1U);
  EXPECT_FALSE(task->models()[0].in_checkpoints);
  EXPECT_TRUE(task->optimizers().empty());
}

TEST(DistillTest, ATeacherOfOtherClassesIsRefused) {
  EchoModel student;
  const auto task = build<Task>("{type: distill, teacher: {type: teacher_of_two, classes: 3}}");
  try {
    task->loss(student, one_sample());
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the student's scores are [1, 2], but the teacher's are [1, 3]");
  }
  TaskContext context;
  context.data.target_type = DType::kF32;
  context.data.target = {2};
  EXPECT_EQ(complaint<Task>("{type: distill, teacher: teacher_of_two}", context),
            "the task 'distill' wants I64 class labels, but the targets of the data are F32 [2]");
}

}  // namespace
}  // namespace accel::distill_test
