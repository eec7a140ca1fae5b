#include "compat/accelerate/config_questions.h"

#include <gtest/gtest.h>

#include "tests/unit/core/recipe_text.h"

namespace accel::config_text_test {
namespace {

/// The updated file, or what is wrong with it.
std::string updated(const std::string& text, const std::string& path = "c.yaml") {
  std::string out;
  const std::string problems = complaint([&](Diagnostics& diagnostics) {
    out = config_text(updated_config(parse_recipe(path, text), diagnostics), path);
  });
  return problems.empty() ? out : problems;
}

TEST(ConfigTextTest, JsonIsWrittenForAJsonFile) {
  ConfigAnswers answers;
  answers.kind = ConfigKind::kMultiCpu;
  answers.num_processes = 4;
  answers.num_machines = 2;
  answers.main_process_ip = "10";
  answers.main_process_port = 29500;
  EXPECT_EQ(config_text(config_tree(answers), "c.json"), R"({
  "compute_environment": "LOCAL_MACHINE",
  "debug": false,
  "distributed_type": "MULTI_CPU",
  "downcast_bf16": "no",
  "enable_cpu_affinity": false,
  "machine_rank": 0,
  "main_process_ip": "10",
  "main_process_port": 29500,
  "main_training_function": "main",
  "mixed_precision": "no",
  "num_machines": 2,
  "num_processes": 4,
  "rdzv_backend": "static",
  "same_network": true,
  "tpu_use_cluster": false,
  "tpu_use_sudo": false,
  "use_cpu": true
}
)");
}

TEST(ConfigTextTest, AnOldFileGetsTheKeysOfToday) {
  EXPECT_EQ(updated("distributed_type: NO\nfp16: true\ndynamo_backend: INDUCTOR\nuse_cpu: "
                    "yes\ndowncast_bf16: false\n"
                    "main_process_ip: null\nfsdp_config: {}\ntpu_env: []\n"),
            "compute_environment: LOCAL_MACHINE\n"
            "debug: false\n"
            "distributed_type: 'NO'\n"
            "downcast_bf16: false\n"
            "dynamo_config:\n"
            "  dynamo_backend: 'INDUCTOR'\n"
            "enable_cpu_affinity: false\n"
            "machine_rank: 0\n"
            "main_training_function: main\n"
            "mixed_precision: 'fp16'\n"
            "num_machines: 1\n"
            "num_processes: 1\n"
            "rdzv_backend: static\n"
            "same_network: false\n"
            "tpu_env: []\n"
            "tpu_use_cluster: false\n"
            "tpu_use_sudo: false\n"
            "use_cpu: yes\n");
}

TEST(ConfigTextTest, WhatAFileSaysIsKeptAndUpdatingTwiceIsUpdatingOnce) {
  const std::string once = updated(
      "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\nmixed_precision: bf16\n"
      "num_processes: 8\nfp16: true\n");
  EXPECT_NE(once.find("fsdp_config:\n  fsdp_version: 2\n"), std::string::npos) << once;
  EXPECT_NE(once.find("mixed_precision: 'bf16'\n"), std::string::npos) << once;
  EXPECT_NE(once.find("num_processes: 8\n"), std::string::npos) << once;
  EXPECT_EQ(updated(once), once);
  const std::string json =
      updated("{\"distributed_type\": \"NO\", \"tpu_vm\": [\"a\", \"b\"]}", "c.json");
  EXPECT_NE(json.find("  \"tpu_vm\": [\"a\", \"b\"],\n"), std::string::npos) << json;
  EXPECT_EQ(updated(json, "c.json"), json);
}

TEST(ConfigTextTest, WhatAccelerateDoesNotReadIsRefused) {
  EXPECT_EQ(
      updated("distributed_type: NO\nnum_proceses: 2\ngradient_clipping: 1\n"),
      "c.yaml:2:1: error: Accelerate's config has no key 'num_proceses'\n    num_proceses: 2\n"
      "    ^\n  hint: did you mean 'num_processes'?\n"
      "c.yaml:3:1: error: Accelerate's config has no key 'gradient_clipping'\n"
      "    gradient_clipping: 1\n    ^\n");
  EXPECT_EQ(updated("compute_environment: AMAZON_SAGEMAKER\n"),
            "c.yaml:1:1: error: 'distributed_type' is missing\n"
            "    compute_environment: AMAZON_SAGEMAKER\n    ^\n"
            "  hint: write 'distributed_type: NO' or 'distributed_type: MULTI_CPU'\n"
            "c.yaml:1:22: error: 'compute_environment: AMAZON_SAGEMAKER' is not supported: "
            "it is of a job on Amazon SageMaker\n"
            "    compute_environment: AMAZON_SAGEMAKER\n                         ^\n"
            "  hint: write LOCAL_MACHINE\n");
  EXPECT_EQ(updated("accelerator: {num_processes: 2}\n"),
            "c.yaml:1:1: error: the config has sections of a recipe, not keys of Accelerate\n"
            "    accelerator: {num_processes: 2}\n    ^\n  hint: there is nothing to update\n");
}

}  // namespace
}  // namespace accel::config_text_test
