// Weights in 4 and 8 bits of other trainers' configs.
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/compat/trainers/import_texts.h"

namespace accel::quantized_import_test {
namespace {

TEST(QuantizedImportTest, WeightsIn4BitsKeepTheirTypeAndScales) {
  const std::string data = "datasets:\n  - {path: ./p.jsonl, type: chat_template}\n";
  expect_lines(
      "base_model: ./x\nadapter: qlora\nload_in_4bit: true\nlora_target_linear: true\n" + data,
      {"  quantization:", "    type: nf4", "    double_quant: true"});
  const std::string factory =
      "model_name_or_path: ./x\nstage: sft\nfinetuning_type: lora\ndataset: a\n";
  expect_lines(factory + "quantization_bit: 4\n",
               {"  quantization:", "    type: nf4", "    double_quant: true"});
  expect_lines(factory + "quantization_bit: 4\nquantization_type: fp4\n", {"    type: fp4"});
  EXPECT_EQ(refusal(factory + "quantization_bit: 8\n"),
            "5: quantization_bit: this kind of quantized weights is not available");
  EXPECT_EQ(refusal(factory + "quantization_bit: 4\nquantization_method: hqq\n"),
            "5: quantization_bit: this kind of quantized weights is not available");
  EXPECT_EQ(refusal(factory + "quantization_bit: 4\nquantization_type: int4\n"),
            "6: quantization_type: 'int4' is no type of 4-bit weights | write nf4 or fp4");
}

TEST(QuantizedImportTest, WeightsWithoutAnAdapterAndOtherKindsAreRefused) {
  const std::string axolotl = "base_model: ./x\n";
  EXPECT_EQ(refusal(axolotl + "load_in_4bit: true\n"),
            "2: load_in_4bit: quantized weights are frozen, and there is no adapter | write "
            "'adapter: qlora', or leave it out");
  EXPECT_EQ(refusal(axolotl + "load_in_8bit: true\n"),
            "2: load_in_8bit: this kind of quantized weights is not available");
  EXPECT_EQ(refusal(axolotl + "adapter: qlora\n"),
            "2: adapter: qlora is an adapter of 4-bit weights | write 'load_in_4bit: true', or "
            "'adapter: lora'");
  EXPECT_EQ(refusal(axolotl + "adapter: lora\nload_in_4bit: true\n"),
            "3: load_in_4bit: 'adapter: lora' has no settings of 4-bit weights | write 'adapter: "
            "qlora', whose weights are nf4 with double quantization");
  EXPECT_EQ(
      refusal("model_name_or_path: ./x\ndataset_name: a\nload_in_4bit: true\nmax_length: 8\n"),
      "3: load_in_4bit: quantized weights are frozen, and there is no adapter | write "
      "'use_peft: true', or leave it out");
}

}  // namespace
}  // namespace accel::quantized_import_test
