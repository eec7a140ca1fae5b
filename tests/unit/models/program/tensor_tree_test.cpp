// Names of a program's tensors that are no tree.
#include "models/program/tensor_tree.h"

#include <gtest/gtest.h>

#include <ATen/ops/zeros.h>

#include "core/base/format_error.h"

namespace accel::tensor_tree_test {
namespace {

TEST(TensorTreeTest, NamesThatAreNoTreeAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "'' is not a valid tensor name"},
      {".weight", "'.weight' is not a valid tensor name"},
      {"fc.weight", "there are two tensors or modules 'weight'"},
      {"fc", "there are two tensors or modules 'fc'"},
      {"fc.weight.scale", "'weight' is both a tensor and a module"},
  };
  for (const auto& [name, message] : cases) {
    TensorTree tree;
    tree.add_parameter("fc.weight", at::zeros({1}));
    std::string found;
    try {
      tree.add_buffer(name, at::zeros({1}));
    } catch (const FormatError& error) {
      found = error.what();
    }
    EXPECT_EQ(found, message) << name;
  }
}

}  // namespace
}  // namespace accel::tensor_tree_test
