// Archives of compiled models: contents and refused files.
#include "formats/program/compiled_model.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/unit/compiled_archive.h"
#include "tests/unit/formats/written.h"

namespace accel::compiled_model_test {
namespace {

using OperandIs = CompiledOperand::Kind;

std::string damage_of(const CompiledArchive& archive) {
  return format_fault([&] { read_compiled_model(file_of(archive.bytes())); });
}

TEST(CompiledModelTest, ReadsWhatPassesTakeAndGive) {
  const CompiledModel model = read_compiled_model(file_of(CompiledArchive().bytes()));
  ASSERT_EQ(model.inputs.size(), 1U);
  EXPECT_EQ(model.inputs[0].name, "x");
  EXPECT_EQ(model.inputs[0].type, DType::kF32);
  EXPECT_EQ(model.inputs[0].sizes[0].least, 1);
  EXPECT_EQ(model.inputs[0].sizes[0].most, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(model.inputs[0].sizes[1].most, 2);
  ASSERT_EQ(model.tensors.size(), 3U);
  EXPECT_TRUE(model.tensors[0].is_trained);
  EXPECT_EQ(model.tensors[0].data.as<float>()[1], 3);
  EXPECT_EQ(model.tensors[1].same_as, 0U);
  EXPECT_FALSE(model.tensors[2].is_parameter);
  EXPECT_EQ(model.tensors[2].same_as, 2U);
  EXPECT_EQ(model.saved, 1U);
  EXPECT_EQ(model.forward.inputs[3].kind, OperandIs::kInput);
  EXPECT_EQ(model.forward.outputs[0].kind, OperandIs::kBuffer);
  EXPECT_EQ(model.forward.outputs[0].index, 2U);
  EXPECT_EQ(model.backward.inputs[3].kind, OperandIs::kOutput);
  EXPECT_EQ(model.backward.outputs[0].index, 0U);
  EXPECT_EQ(model.evaluate.code.size(), 64U);
  EXPECT_TRUE(model.evaluate.table.empty());
}

TEST(CompiledModelTest, DamagedArchivesAreRefused) {
  using Change = std::function<void(CompiledArchive&)>;
  const std::pair<Change, const char*> cases[] = {
      {[](auto& a) { a.format = "2"; }, "it has format version 2, 1 wanted"},
      {[](auto& a) { a.has_code = false; }, "the archive has no 'forward.so'"},
      {[](auto& a) { a.type = 2; }, "'forward.so' is not a shared object"},
      {[](auto& a) { a.inputs = R"({"name":"x","dtype":"F31","sizes":[]})"; },
       "the element type 'F31' is not supported"},
      {[](auto& a) { a.inputs = R"({"name":"x","dtype":"F32","sizes":[[3,2]]})"; },
       "a range of sizes is empty"},
      {[](auto& a) { a.inputs = R"({"name":"x","dtype":"F32","sizes":[[3]]})"; },
       "a range of sizes is not a pair"},
      {[](auto& a) { a.tensors = R"({"name":"w","kind":"tensor","saved":true})"; },
       "'w' is a 'tensor', not a parameter or buffer"},
      {[](auto& a) { a.tensors += R"(,{"name":"w","kind":"buffer","saved":true})"; },
       "two tensors are named 'w'"},
      {[](auto& a) {
         a.tensors = R"({"name":"w","kind":"buffer","saved":true},)"
                     R"({"name":"n","kind":"buffer","saved":true,"same_as":"w"})";
       },
       "'n' is an alias, but has data"},
      {[](auto& a) { a.tensors += R"(,{"name":"b","kind":"buffer","saved":true,"same_as":"w"})"; },
       "'b' cannot be an alias of 'w'"},
      {[](auto& a) { a.tensors += R"(,{"name":"b","kind":"buffer","saved":true})"; },
       "'b' has no data"},
      {[](auto& a) { a.forward = R"({"inputs":[["tensor","v"]],"outputs":[]})"; }, "no tensor 'v'"},
      {[](auto& a) { a.forward = R"({"inputs":[["input",1]],"outputs":[]})"; }, "no 'input' 1"},
      {[](auto& a) { a.forward = R"({"inputs":[["gradient"]],"outputs":[]})"; },
       "the forward pass has an unexpected operand 'gradient'"},
      {[](auto& a) { a.forward = R"({"inputs":[["input"]],"outputs":[]})"; },
       "the forward pass has an unexpected operand 'input'"},
      {[](auto& a) { a.forward = R"({"inputs":["input"],"outputs":[]})"; },
       "an operand is not a list"},
      {[](auto& a) { a.forward = R"({"inputs":[],"outputs":[["buffer","w"]]})"; },
       "'w' is not a buffer"},
      {[](auto& a) { a.forward = R"({"inputs":[],"outputs":[["saved",1],["saved",0]]})"; },
       "the saved values are not in order"},
      {[](auto& a) { a.backward = R"({"inputs":[["saved",1]],"outputs":[]})"; }, "no 'saved' 1"},
      {[](auto& a) { a.backward = R"({"inputs":[],"outputs":[["tensor","n"]]})"; },
       "'n' has a gradient, but is not trained"},
      {[](auto& a) { a.backward = R"({"inputs":[],"outputs":[["tensor","w"],["tensor","w"]]})"; },
       "'w' has two gradients"},
      {[](auto& a) {
         a.forward = R"({"inputs":[["input",0]],"outputs":[["output"],["saved",0]]})";
       },
       "'w' has a gradient, but is not used"},
      {[](auto& a) { a.evaluate = R"({"inputs":[],"outputs":[]})"; },
       "a forward pass does not have exactly one output"},
  };
  EXPECT_EQ(damage_of({}), "");
  for (const auto& [change, wanted] : cases) {
    CompiledArchive archive;
    change(archive);
    EXPECT_EQ(damage_of(archive), wanted);
  }
  CompiledArchive other;
  other.machine = 40;
  EXPECT_EQ(damage_of(other), "it was compiled for machine 40, this machine is " +
                                  elf_machine_name(elf_machine_here()));
}

TEST(CompiledModelTest, NoCutOfAnArchiveIsRead) {
  const std::string bytes = CompiledArchive().bytes();
  for (size_t size = 0; size < bytes.size(); size += 13) {
    EXPECT_NE(format_fault([&] { read_compiled_model(file_of(bytes.substr(0, size))); }), "");
  }
}

TEST(CompiledModelTest, TheFirstExtensionThatAProcessorLacksIsNamed) {
  const std::string cpuinfo = "processor : 0\nflags\t\t: fpu avx avx2\nflags : avx512f\n";
  EXPECT_EQ(missing_extension({"avx", "avx2"}, cpuinfo), "");
  EXPECT_EQ(missing_extension({"avx", "avx512f", "amx"}, cpuinfo), "avx512f");
  EXPECT_EQ(missing_extension({"avx"}, "processor : 0\n"), "");
}

}  // namespace
}  // namespace accel::compiled_model_test
