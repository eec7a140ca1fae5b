// Graphs written out by hand: how arguments reach operators, and what fails where.
#include "models/program/aten_graph.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "models/program/aten_operand.h"

namespace accel::aten_graph_test {
namespace {

Pt2Argument slot_at(size_t index) {
  return {Pt2Slot{index}};
}

Pt2Argument ints(std::vector<int64_t> values) {
  Pt2Argument::List list;
  for (const int64_t value : values) list.push_back({value});
  return {list};
}

using Arguments = std::vector<std::pair<std::string, Pt2Argument>>;

/// y = target(arguments), where slot 0 is the graph's input and slot 1 is y.
Pt2Graph one_call(const std::string& target, Arguments arguments) {
  Pt2Graph graph;
  graph.inputs = {slot_at(0)};
  graph.nodes = {{"y", target, "layers.0", std::move(arguments), {slot_at(1)}}};
  graph.outputs = {slot_at(1)};
  graph.slots = 2;
  return graph;
}

at::Tensor twos(std::vector<int64_t> sizes) {
  return at::full(sizes, 2.0, at::dtype(at::kFloat));
}

c10::IValue result_of(const Pt2Graph& graph, const at::Tensor& input) {
  return AtenGraph(graph).run({input}).at(0);
}

std::string complaint_of(const Pt2Graph& graph, const at::Tensor& input) {
  try {
    result_of(graph, input);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
    return error.what();
  }
  return "";
}

TEST(AtenGraphTest, NumbersAmongTensorsDoNotDecideTheirType) {
  const auto graph =
      one_call("torch.ops.aten.mul.Tensor", {{"self", slot_at(0)}, {"other", {1.5}}});
  const at::Tensor out = result_of(graph, twos({2}).to(at::kLong)).toTensor();
  EXPECT_EQ(out.scalar_type(), at::kFloat);
  EXPECT_EQ(out[0].item<float>(), 3.0F);
}

TEST(AtenGraphTest, OneNumberStandsForAListAndMissingArgumentsForTheirDefaults) {
  const at::Tensor out = result_of(one_call("torch.ops.aten.max_pool2d.default",
                                            {{"self", slot_at(0)}, {"kernel_size", {int64_t{2}}}}),
                                   twos({1, 1, 4, 4}))
                             .toTensor();
  EXPECT_EQ(out.sizes(), (std::vector<int64_t>{1, 1, 2, 2}));
}

TEST(AtenGraphTest, AConditionChoosesAGraph) {
  const auto branch = [](const std::string& target) {
    return std::make_shared<const Pt2Graph>(
        one_call(target, {{"self", slot_at(0)}, {"other", slot_at(0)}}));
  };
  Pt2Graph graph;
  graph.inputs = {slot_at(0), slot_at(1)};
  graph.nodes = {{"cond",
                  "torch.ops.higher_order.cond",
                  "layers.0",
                  {{"", slot_at(0)},
                   {"", {branch("torch.ops.aten.mul.Tensor")}},
                   {"", {branch("torch.ops.aten.sub.Tensor")}},
                   {"", {Pt2Argument::List{slot_at(1)}}}},
                  {slot_at(2)}}};
  graph.outputs = {slot_at(2)};
  graph.slots = 3;
  const AtenGraph program(graph);
  const at::Tensor x = twos({2}).requires_grad_();
  const at::Tensor yes = program.run({twos({}).gt(1), x}).at(0).toTensor();
  EXPECT_EQ(yes[0].item<float>(), 4.0F);
  EXPECT_EQ(program.run({twos({}).lt(1), x}).at(0).toTensor()[0].item<float>(), 0.0F);
  EXPECT_EQ(program.run({true, x}).at(0).toTensor()[0].item<float>(), 4.0F);
  yes.sum().backward();
  EXPECT_EQ(x.grad()[0].item<float>(), 4.0F);

  graph.nodes[0].arguments[2] = {"", {int64_t{1}}};
  try {
    const AtenGraph refused(graph);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the exported program's 'cond' (torch.ops.higher_order.cond) of the module "
                 "'layers.0': argument 2 is not a graph");
  }
}

TEST(AtenGraphTest, ListsMayHoldValues) {
  Pt2Graph graph =
      one_call("torch.ops.aten.cat.default",
               {{"tensors", {Pt2Argument::List{slot_at(0), slot_at(0)}}}, {"dim", {int64_t{0}}}});
  EXPECT_EQ(result_of(graph, twos({2})).toTensor().numel(), 4);
}

TEST(AtenGraphTest, SizesAreComputedAsPythonDoes) {
  Pt2Graph graph =
      one_call("torch.ops.aten.sym_size.int", {{"self", slot_at(0)}, {"dim", {int64_t{0}}}});
  graph.nodes.push_back(
      {"z", "_operator.floordiv", "", {{"a", slot_at(1)}, {"b", {int64_t{2}}}}, {slot_at(2)}});
  graph.nodes.push_back(
      {"v",
       "torch.ops.aten.view.default",
       "",
       {{"self", slot_at(0)}, {"size", {Pt2Argument::List{slot_at(2), {int64_t{2}}}}}},
       {slot_at(3)}});
  graph.outputs = {slot_at(3)};
  graph.slots = 4;
  EXPECT_EQ(result_of(graph, twos({6})).toTensor().sizes(), (std::vector<int64_t>{3, 2}));
}

TEST(AtenGraphTest, GraphsWithinRunInTheirOwnMode) {
  const Pt2Graph inner =
      one_call("torch.ops.aten.mul.Tensor", {{"self", slot_at(0)}, {"other", {2.0}}});
  const Pt2Argument body = {std::make_shared<const Pt2Graph>(inner)};
  const at::Tensor x = twos({2}).requires_grad_();
  const auto no_grad = one_call("torch.ops.higher_order.wrap_with_set_grad_enabled",
                                {{"", {false}}, {"", body}, {"", slot_at(0)}});
  EXPECT_FALSE(result_of(no_grad, x).toTensor().requires_grad());
  const auto with_grad = one_call("torch.ops.higher_order.wrap_with_set_grad_enabled",
                                  {{"", {true}}, {"", body}, {"", slot_at(0)}});
  const at::NoGradGuard guard;
  EXPECT_TRUE(result_of(with_grad, x).toTensor().requires_grad());
  EXPECT_FALSE(at::GradMode::is_enabled());
}

TEST(AtenGraphTest, AutocastWithinAGraphEndsWithIt) {
  const Pt2Graph inner =
      one_call("torch.ops.aten.mm.default", {{"self", slot_at(0)}, {"mat2", slot_at(0)}});
  const auto graph = one_call("torch.ops.higher_order.wrap_with_autocast",
                              {{"", {std::string("cpu")}},
                               {"", {Pt2Code{Pt2Code::Kind::kScalarType, 13}}},
                               {"", {true}},
                               {"", {true}},
                               {"", {std::make_shared<const Pt2Graph>(inner)}},
                               {"", slot_at(0)}});
  EXPECT_EQ(result_of(graph, twos({2, 2})).toTensor().scalar_type(), at::kBFloat16);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(AtenGraphTest, RefusesWhatThereIsNoOperatorFor) {
  const at::Tensor x = twos({2});
  EXPECT_EQ(complaint_of(one_call("torch.ops.torchvision.nms.default", {{"self", slot_at(0)}}), x),
            "the exported program's 'y' (torch.ops.torchvision.nms.default) of the module "
            "'layers.0': this build lacks the operator");
  EXPECT_EQ(complaint_of(one_call("torch.ops.higher_order.while_loop", {}), x),
            "the exported program's 'y' (torch.ops.higher_order.while_loop) of the module "
            "'layers.0': this build lacks the operator");
  EXPECT_EQ(complaint_of(one_call("torch.ops.aten.relu.default", {{"x", slot_at(0)}}), x),
            "the exported program's 'y' (torch.ops.aten.relu.default) of the module 'layers.0': "
            "the argument 'self' is missing");
  EXPECT_EQ(complaint_of(
                one_call("torch.ops.aten.relu.default", {{"self", slot_at(0)}, {"x", {true}}}), x),
            "the exported program's 'y' (torch.ops.aten.relu.default) of the module 'layers.0': "
            "it has arguments that are not known");
  EXPECT_EQ(complaint_of(one_call("torch.ops.aten.relu.default", {{"self", ints({1})}}), x),
            "the exported program's 'y' (torch.ops.aten.relu.default) of the module 'layers.0': a "
            "list instead of 'Tensor'");
}

TEST(AtenGraphTest, SaysWhichCallOfWhichModuleFailed) {
  const auto graph =
      one_call("torch.ops.aten.view.default", {{"self", slot_at(0)}, {"size", ints({7})}});
  EXPECT_EQ(complaint_of(graph, twos({2})),
            "the exported program fails in 'y' (torch.ops.aten.view.default) of the module "
            "'layers.0': shape '[7]' is invalid for input of size 2");
}

TEST(PythonNumbersTest, AreThoseOfPython) {
  struct Case {
    const char* function;
    std::vector<c10::IValue> arguments;
    c10::IValue wanted;
  };
  const Case cases[] = {
      {"_operator.floordiv", {7, 2}, 3},   {"_operator.floordiv", {-7, 2}, -4},
      {"_operator.floordiv", {7, -2}, -4}, {"_operator.floordiv", {-7.0, 2}, -4.0},
      {"_operator.mod", {-7, 3}, 2},       {"_operator.mod", {7, -3}, -2},
      {"_operator.truediv", {7, 2}, 3.5},  {"_operator.pow", {3, 4}, 81},
      {"_operator.add", {3, 0.5}, 3.5},    {"_operator.sub", {3, 4}, -1},
      {"_operator.mul", {3, 4}, 12},       {"_operator.eq", {3, 3.0}, true},
      {"_operator.lt", {4, 3}, false},     {"_operator.and_", {true, false}, false},
      {"_operator.or_", {4, 1}, 5},        {"_operator.rshift", {-5, 1}, -3},
      {"_operator.lshift", {3, 2}, 12},    {"_operator.neg", {3}, -3},
      {"math.trunc", {-1.5}, -1},          {"torch.sym_float", {3}, 3.0},
      {"torch.sym_max", {3, 5}, 5},        {"torch.sym_min", {3, 0.5}, 0.5},
      {"torch.sym_not", {false}, true},    {"torch.sym_ite", {false, 1, 2}, 2},
      {"torch._sym_sqrt", {9}, 3.0},
  };
  for (const Case& c : cases) {
    std::vector<c10::IValue> stack = c.arguments;
    const PythonFunction function = python_function(c.function);
    ASSERT_TRUE(function) << c.function;
    function(stack);
    ASSERT_EQ(stack.size(), 1U);
    EXPECT_EQ(stack[0].tagKind(), c.wanted.tagKind()) << c.function;
    EXPECT_EQ(stack[0], c.wanted) << c.function;
  }
  EXPECT_EQ(python_function("os.system"), nullptr);
}

}  // namespace
}  // namespace accel::aten_graph_test
