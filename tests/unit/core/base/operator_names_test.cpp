#include "core/base/metric_names.h"

#include <gtest/gtest.h>

namespace accel::operator_names_test {
namespace {

TEST(OperatorNamesTest, AutogradNodesAreNamedAsInPython) {
  EXPECT_EQ(readable_operator("torch::autograd::CppNode<accel::(anonymous namespace)::MaxPool2d>"),
            "MaxPool2dBackward");
  EXPECT_EQ(readable_operator("autograd::engine::evaluate_function: "
                              "torch::autograd::CppNode<accel::Mean<accel::Rows>>"),
            "autograd::engine::evaluate_function: Mean<accel::Rows>Backward");
}

TEST(OperatorNamesTest, OtherNamesAreUnchanged) {
  for (const char* name : {"aten::mm", "AddmmBackward0", "torch::autograd::CppNode<torn"}) {
    EXPECT_EQ(readable_operator(name), name);
  }
}

}  // namespace
}  // namespace accel::operator_names_test
