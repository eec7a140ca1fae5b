// fp8 of other trainers' configs.
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/compat/trainers/import_texts.h"

namespace accel::fp8_import_test {
namespace {

/// torchtitan's, in YAML.
std::string titan(const std::string& converters, const std::string& more = "") {
  return "model: {name: llama3, flavor: 8B, converters: [" + converters +
         "]}\ntraining: {steps: 10, seq_len: 8}\n" + more;
}

TEST(Fp8ImportTest, TorchtitansConverterIsTaken) {
  expect_lines(titan("float8"),
               {"  mixed_precision: fp8", "    recipe: tensorwise", "    filter: []"});
  expect_lines(titan("quantize.linear.float8",
                     "quantize: {linear: {float8: {recipe_name: rowwise_with_gw_hp, filter_fqns: "
                     "[attention.wk, w2, output]}}}\n"),
               {"    recipe: rowwise_gw_hp", "    filter: ['*.k_proj', '*.down_proj']"});
  expect_lines(titan("float8", "float8: {filter_fqns: 'output,wq'}\n"),
               {"    filter: ['*.q_proj']"});
}

TEST(Fp8ImportTest, WhatDiffersIsReported) {
  expect_lines(titan("mx"), {"  mixed_precision: bf16",
                             "  c.yaml:1: model.converters: the converter 'mx' is not available"});
  expect_lines(titan("float8",
                     "float8: {filter_fqns: [auto_filter_small_kn], "
                     "enable_fsdp_float8_all_gather: true}\n"),
               {"  c.yaml:3: float8.filter_fqns: 'auto_filter_small_kn' has no counterpart: write "
                "patterns in 'accelerator.fp8.filter'",
                "    all_gather: true"});
  expect_lines(
      titan("float8", "float8: {recipe_name: rowwise, enable_fsdp_float8_all_gather: true}\n"),
      {"  c.yaml:3: float8.enable_fsdp_float8_all_gather: torchao gathers the weights of "
       "'tensorwise' alone in fp8"});
}

TEST(Fp8ImportTest, AxolotlsIsThatOfTorchao) {
  const std::string config =
      "base_model: ./x\ndatasets:\n  - {path: ./p.jsonl, type: chat_template}\n";
  expect_lines(
      config + "bf16: true\nfp8: true\nfp8_enable_fsdp_float8_all_gather: true\n",
      {"  mixed_precision: fp8", "    recipe: tensorwise",
       "  c.yaml:6: fp8_enable_fsdp_float8_all_gather: it has no effect without sharding"});
  expect_lines(config +
                   "bf16: true\nfp8: true\nfp8_enable_fsdp_float8_all_gather: true\n"
                   "fsdp_version: 2\nfsdp_config: {reshard_after_forward: true}\n",
               {"    all_gather: true"});
  expect_lines(config + "bf16: true\nfp8: false\n", {"  mixed_precision: bf16"});
}

}  // namespace
}  // namespace accel::fp8_import_test
