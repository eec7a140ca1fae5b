// .pt2 archives: graph and tensors of a small program, and refused files.
#include "formats/program/pt2.h"

#include <gtest/gtest.h>

#include <limits>

#include "formats/archive/zip.h"
#include "tests/unit/formats/golden_file.h"
#include "tests/unit/formats/written.h"

namespace accel::pt2_test {
namespace {

/// The JSON of y = mul(x, w), where x is [any, 2] and w a parameter.
const std::string kGraph =
    R"({"inputs":[{"as_tensor":{"name":"p_w"}},{"as_tensor":{"name":"x"}}],)"
    R"("outputs":[{"as_tensor":{"name":"y"}}],)"
    R"("nodes":[{"name":"y","target":"torch.ops.aten.mul.Tensor","inputs":[)"
    R"({"name":"self","arg":{"as_tensor":{"name":"x"}},"kind":1},)"
    R"({"name":"other","arg":{"as_tensor":{"name":"p_w"}},"kind":1}],)"
    R"("outputs":[{"as_tensor":{"name":"y"}}],)"
    R"("metadata":{"nn_module_stack":"L__self__,,a.M;L__self___b,b.0,a.B"}}],)"
    R"("tensor_values":{"x":{"dtype":7,"sizes":[{"as_expr":{"expr_str":)"
    R"j("Symbol('s7', integer=True)"}},{"as_int":2}]}}})j";
const std::string kSignature =
    R"({"input_specs":[{"parameter":{"arg":{"name":"p_w"},"parameter_name":"b.0.w"}},)"
    R"({"user_input":{"arg":{"as_tensor":{"name":"x"}}}}],)"
    R"("output_specs":[{"user_output":{"arg":{"as_tensor":{"name":"y"}}}}]})";
const std::string kCalls =
    R"([{"fqn":"","signature":{"out_spec":"[1, {\"type\": \"builtins.dict\", )"
    R"(\"context\": \"[\\\"logits\\\"]\", \"children_spec\": []}]"}}])";
const std::string kWeights =
    R"({"config":{"b.0.w":{"path_name":"weight_0","is_param":true,"use_pickle":false,)"
    R"("tensor_meta":{"dtype":7,"sizes":[{"as_int":2}],"requires_grad":true,)"
    R"("strides":[{"as_int":1}],"storage_offset":{"as_int":0},"layout":7}}}})";

std::string program_of(const std::string& graph, const std::string& signature = kSignature) {
  return R"({"graph_module":{"graph":)" + graph + R"(,"signature":)" + signature +
         R"(,"module_call_graph":)" + kCalls +
         R"(},"range_constraints":{"s7":{"min_val":1,"max_val":64}}})";
}

struct Archive {
  std::string program = program_of(kGraph);
  std::string weights = kWeights;
  std::string bytes = std::string(8, '\1');
};

std::string saved(const Archive& archive) {
  return written([&](const ByteSink& sink) {
    ZipWriter zip(sink);
    zip.add("m/models/model.json", as_bytes(archive.program));
    zip.add("m/data/weights/model_weights_config.json", as_bytes(archive.weights));
    zip.add("m/data/weights/weight_0", as_bytes(archive.bytes));
    zip.finish();
  });
}

std::string fault_of(const Archive& archive) {
  return format_fault([&] { read_pt2(file_of(saved(archive))); });
}

std::string replaced(std::string text, const std::string& part, const std::string& with) {
  const size_t at = text.find(part);
  if (at == text.npos) throw std::invalid_argument("no '" + part + "' to replace");
  return text.replace(at, part.size(), with);
}

TEST(Pt2Test, ReadsCallsAndTensorsAndWhatTheyAreFor) {
  const Pt2File file = read_pt2(file_of(saved({})));
  const Pt2Program& program = file.programs.at("model");
  EXPECT_EQ(program.graph.slots, 3U);
  ASSERT_EQ(program.graph.nodes.size(), 1U);
  const Pt2Node& node = program.graph.nodes[0];
  EXPECT_EQ(node.target, "torch.ops.aten.mul.Tensor");
  EXPECT_EQ(node.module, "b.0");
  EXPECT_EQ(node.arguments[1].first, "other");
  EXPECT_EQ(node.arguments[1].second.as<Pt2Slot>()->index, 0U);
  EXPECT_EQ(program.graph.outputs[0].as<Pt2Slot>()->index, 2U);
  EXPECT_EQ(program.output_names, std::vector<std::string>{"logits"});

  ASSERT_EQ(program.inputs.size(), 2U);
  EXPECT_EQ(program.inputs[0].kind, Pt2Input::Kind::kParameter);
  EXPECT_EQ(program.inputs[0].name, "b.0.w");
  const Pt2Input& x = program.inputs[1];
  EXPECT_EQ(x.kind, Pt2Input::Kind::kUser);
  EXPECT_EQ(x.name, "x");
  ASSERT_EQ(x.meta.sizes.size(), 2U);
  EXPECT_EQ(x.meta.sizes[0].least, 1);
  EXPECT_EQ(x.meta.sizes[0].most, 64);
  EXPECT_EQ(x.meta.sizes[1].most, 2);

  const Pt2Tensor& weight = file.tensors.at("b.0.w");
  EXPECT_EQ(weight.type, DType::kF32);
  EXPECT_EQ(weight.sizes, Shape{2});
  EXPECT_EQ(weight.bytes.size(), 8U);
  EXPECT_TRUE(weight.requires_grad);
}

TEST(Pt2Test, ReadsEveryKindOfArgument) {
  const std::string others =
      R"({"name":"a","arg":{"as_ints":[1,-2]}},{"name":"b","arg":{"as_float":"-Infinity"}},)"
      R"({"name":"c","arg":{"as_sym_ints":[{"as_int":3}]}},{"name":"d","arg":{"as_none":true}},)"
      R"({"name":"e","arg":{"as_optional_tensors":[{"as_none":true},{"as_tensor":{"name":"x"}}]}},)"
      R"({"name":"f","arg":{"as_device":{"type":"cpu","index":null}}},)"
      R"({"name":"g","arg":{"as_scalar_type":7}},{"name":"h","arg":{"as_string":"mean"}},)"
      R"({"name":"i","arg":{"as_complex":{"real":1.5,"imag":"NaN"}}},)"
      R"({"name":"j","arg":{"as_nested_tensors":[[{"name":"x"}]]}},)"
      R"({"name":"k","arg":{"as_graph":{"name":"g","graph":{"inputs":[{"as_tensor":{"name":"x"}}],)"
      R"("outputs":[{"as_tensor":{"name":"x"}}],"nodes":[]}}}})";
  Archive archive;
  archive.program = program_of(
      replaced(kGraph, R"({"name":"other","arg":{"as_tensor":{"name":"p_w"}},"kind":1})", others));
  const Pt2File file = read_pt2(file_of(saved(archive)));
  const auto& arguments = file.programs.at("model").graph.nodes[0].arguments;
  ASSERT_EQ(arguments.size(), 12U);
  const auto& ints = *arguments[1].second.as<Pt2Argument::List>();
  EXPECT_EQ(*ints[1].as<int64_t>(), -2);
  EXPECT_EQ(*arguments[2].second.as<double>(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(*(*arguments[3].second.as<Pt2Argument::List>())[0].as<int64_t>(), 3);
  EXPECT_TRUE(arguments[4].second.as<std::monostate>());
  EXPECT_TRUE((*arguments[5].second.as<Pt2Argument::List>())[0].as<std::monostate>());
  EXPECT_EQ(arguments[6].second.as<Pt2Device>()->type, "cpu");
  EXPECT_EQ(arguments[7].second.as<Pt2Code>()->number, 7);
  EXPECT_EQ(*arguments[8].second.as<std::string>(), "mean");
  EXPECT_EQ(arguments[9].second.as<std::complex<double>>()->real(), 1.5);
  const auto& nested = *arguments[10].second.as<Pt2Argument::List>();
  EXPECT_EQ((*nested[0].as<Pt2Argument::List>())[0].as<Pt2Slot>()->index, 1U);
  EXPECT_EQ((*arguments[11].second.as<std::shared_ptr<const Pt2Graph>>())->slots, 1U);
}

TEST(Pt2Test, RefusesInvalidGraphs) {
  struct Case {
    const char* part;
    const char* with;
    const char* fault;
  };
  const std::string node = "the program 'model': node 'y' (torch.ops.aten.mul.Tensor): ";
  const Case cases[] = {
      {R"("arg":{"as_tensor":{"name":"p_w"}})", R"("arg":{"as_tensor":{"name":"z"}})",
       "'z' is used before it is computed"},
      {R"("outputs":[{"as_tensor":{"name":"y"}}],"metadata")",
       R"("outputs":[{"as_tensor":{"name":"x"}}],"metadata")", "'x' is computed twice"},
      {R"("arg":{"as_tensor":{"name":"p_w"}})", R"("arg":{"as_custom_obj":{}})",
       "arguments of kind 'as_custom_obj' are not supported"},
      {R"("arg":{"as_tensor":{"name":"p_w"}})", R"("arg":{"as_int":1.5})",
       "'as_int' is not an integer"},
      {R"("arg":{"as_tensor":{"name":"p_w"}})", R"("arg":{"as_int":18446744073709551615})",
       "'as_int' is not an integer"},
      {R"("arg":{"as_tensor":{"name":"p_w"}})", R"("arg":{"as_int":1,"as_bool":true})",
       "expected an object with one key"},
      {R"("arg":{"as_tensor":{"name":"p_w"}})", R"("arg":{"as_ints":7})",
       "'as_ints' is not a list"},
      {R"("arg":{"as_tensor":{"name":"p_w"}})", R"("arg":{"as_float":"much"})",
       "'as_float' is not a number"},
  };
  for (const Case& c : cases) {
    Archive archive;
    archive.program = program_of(replaced(kGraph, c.part, c.with));
    EXPECT_EQ(fault_of(archive), node + c.fault);
  }
}

TEST(Pt2Test, RefusesSignaturesThatDoNotFit) {
  Archive archive;
  archive.program = program_of(kGraph, replaced(kSignature, "parameter\":{", "token\":{"));
  EXPECT_EQ(fault_of(archive), "the program 'model': inputs of kind 'token' are not supported");
  archive.program = program_of(kGraph, R"({"input_specs":[],"output_specs":[]})");
  EXPECT_EQ(fault_of(archive), "the program 'model': the graph has 2 inputs, its signature 0");
  archive.program = program_of(kGraph, replaced(kSignature, "user_output", "buffer_mutation"));
  EXPECT_EQ(fault_of(archive),
            "the program 'model': outputs of kind 'buffer_mutation' are not supported: export "
            "without run_decompositions()");
  archive.program = program_of(kGraph, replaced(kSignature, "b.0.w", "b.1.w"));
  EXPECT_EQ(fault_of(archive), "the program 'model' uses the tensor 'b.1.w', which is missing");
  archive.program = program_of("7");
  EXPECT_EQ(fault_of(archive), "the program 'model': expected an object with 'inputs'");
  const std::string spec = R"({"parameter":{"arg":{"name":"p_w"},"parameter_name":"b.0.w"}},)";
  archive.program =
      program_of(replaced(kGraph, R"("inputs":[)", R"("inputs":[{"as_tensor":{"name":"p_v"}},)"),
                 replaced(kSignature, spec, spec + spec));
  EXPECT_EQ(fault_of(archive), "the program 'model': the tensor 'b.0.w' is an input twice");
}

TEST(Pt2Test, RefusesTensorsOutsideTheirBytes) {
  struct Case {
    const char* part;
    const char* with;
    const char* fault;
  };
  const std::string outside = "its shape [2] exceeds the 8 bytes of 'm/data/weights/weight_0'";
  const Case cases[] = {
      {R"("storage_offset":{"as_int":0})", R"("storage_offset":{"as_int":1})", outside.c_str()},
      {R"("storage_offset":{"as_int":0})", R"("storage_offset":{"as_int":-1})", outside.c_str()},
      {R"("strides":[{"as_int":1}])", R"("strides":[{"as_int":9223372036854775807}])",
       outside.c_str()},
      {R"("strides":[{"as_int":1}])", R"("strides":[])", outside.c_str()},
      {R"("strides":[{"as_int":1}])", R"("strides":[{"as_int":-1}])",
       "'strides' has a negative number"},
      {R"("sizes":[{"as_int":2}])", R"("sizes":[{"as_expr":{}}])", "'as_int' is missing"},
      {R"("dtype":7)", R"("dtype":10)", "the element type 10 is not supported"},
      {R"("layout":7)", R"("layout":1)", "its layout is not strided"},
      {R"("use_pickle":false)", R"("use_pickle":true)",
       "it is pickled, as tensor subclasses are, which is not supported"},
      {"weight_0", "weight_1", "the archive has no 'm/data/weights/weight_1'"},
  };
  for (const Case& c : cases) {
    Archive archive;
    archive.weights = replaced(kWeights, c.part, c.with);
    EXPECT_EQ(fault_of(archive), std::string("the tensor 'b.0.w': ") + c.fault);
  }
}

TEST(Pt2Test, DamagedBytesShow) {
  std::string file = saved({});
  EXPECT_EQ(format_fault([&] { check_pt2(file_of(file)); }), "");
  file[file.find(std::string(8, '\1'))] = '\2';
  EXPECT_EQ(format_fault([&] { check_pt2(file_of(file)); }),
            "the zip entry 'm/data/weights/weight_0' is damaged: its CRC-32 does not match");
}

/// A node with the given arguments, and one more that is a graph with the same node.
Pt2Program program_with(const Pt2Node& node) {
  Pt2Graph inner;
  inner.nodes = {node};
  Pt2Program out;
  out.graph = inner;
  out.graph.nodes[0].arguments.emplace_back("", Pt2Argument{std::make_shared<Pt2Graph>(inner)});
  return out;
}

bool same_plain(const Pt2Argument& a, const Pt2Argument& b) {
  if (const bool* flag = b.as<bool>()) return a.as<bool>() && *a.as<bool>() == *flag;
  const double* number = b.as<double>();
  return number && a.as<double>() && *a.as<double>() == *number;
}

TEST(Pt2Test, EvaluationTurnsOffTrainingBehavior) {
  struct Case {
    const char* name;
    Pt2Argument given, wanted, mean;
  };
  const Pt2Argument slot = {Pt2Slot{0}}, none = {};
  const Case cases[] = {
      {"train", {true}, {false}, slot},    {"training", {true}, {false}, slot},
      {"training", {true}, {true}, none},  {"use_input_stats", {true}, {false}, slot},
      {"dropout_p", {0.5}, {0.0}, slot},   {"keepdim", {true}, {true}, slot},
      {"training", {false}, {false}, slot}};
  for (const Case& c : cases) {
    const Pt2Program program =
        program_with({"y", "", "", {{c.name, c.given}, {"running_mean", c.mean}}, {}});
    const Pt2Program turned = evaluation_of(program);
    const auto& arguments = turned.graph.nodes[0].arguments;
    EXPECT_TRUE(same_plain(arguments[0].second, c.wanted)) << c.name;
    const auto& inner = *arguments[2].second.as<std::shared_ptr<const Pt2Graph>>();
    EXPECT_TRUE(same_plain(inner->nodes[0].arguments[0].second, c.wanted)) << c.name;
  }
}

TEST(Pt2Test, EvaluationCountsNoBatches) {
  Pt2Program program;
  program.inputs = {{Pt2Input::Kind::kBuffer, "n.num_batches_tracked", true, {Pt2Slot{0}}},
                    {Pt2Input::Kind::kBuffer, "n.other", true, {Pt2Slot{1}}}};
  const std::string add = "torch.ops.aten.add_.Tensor";
  for (const size_t slot : {size_t{0}, size_t{1}}) {
    program.graph.nodes.push_back({"y", add, "", {{"self", {Pt2Slot{slot}}}}, {}});
  }
  const Pt2Program turned = evaluation_of(program);
  ASSERT_EQ(turned.graph.nodes.size(), 1U);
  EXPECT_EQ(turned.graph.nodes[0].arguments[0].second.as<Pt2Slot>()->index, 1U);
}

TEST(Pt2Test, RefusesOtherArchives) {
  const std::string other = written([](const ByteSink& sink) {
    ZipWriter zip(sink);
    zip.add("archive/data.pkl", as_bytes("x"));
    zip.finish();
  });
  EXPECT_EQ(format_fault([&] { read_pt2(file_of(other)); }),
            "the archive has no 'models/*.json' of torch.export");
  EXPECT_EQ(format_fault([] { read_pt2(file_of("x")); }),
            "not a zip archive: the end record is missing");
  Archive archive;
  archive.program = "[]";
  EXPECT_EQ(fault_of(archive), "the program 'model' is not a JSON object");
}

}  // namespace
}  // namespace accel::pt2_test
