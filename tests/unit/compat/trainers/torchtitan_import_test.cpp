#include <gtest/gtest.h>

#include "tests/unit/compat/trainers/import_texts.h"

namespace accel::torchtitan_import_test {
namespace {

TEST(TorchtitanImportTest, ActivationCheckpointingIsRead) {
  const auto imported = [](const std::string& keys) {
    return reported("c.toml",
                    "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nsteps = 10\n"
                    "[activation_checkpoint]\n" +
                        keys);
  };
  const auto expect_has = [&](const std::string& keys, const std::string& line) {
    EXPECT_NE(imported(keys).find(line), std::string::npos) << imported(keys);
  };
  expect_has("mode = \"full\"\n", "\n  activation_checkpointing: blocks\n");
  expect_has("mode = \"selective\"\nselective_ac_option = \"2\"\n",
             "\n  activation_checkpoint.selective_ac_option: 2 is not supported: outputs of matrix "
             "products are stored\n");
  expect_has("mode = \"memory_budget\"\nmemory_budget = 0.5\n",
             "\n  activation_checkpoint.mode: memory_budget is not supported: outputs of matrix "
             "products are stored\n");
  EXPECT_EQ(imported("mode = \"none\"\n").find("  activation_checkpointing:"), std::string::npos);
}

TEST(TorchtitanImportTest, ItsWarmupStartsAboveZero) {
  const std::string base =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nsteps = 10\n[lr_scheduler]\n";
  const std::string remark =
      "  lr_scheduler.warmup_steps: the rate of torchtitan's first step is above 0, that of the "
      "recipe is 0\n";
  const auto account = [&](const std::string& keys) { return reported("c.toml", base + keys); };
  EXPECT_NE(account("warmup_steps = 2\n").find(remark), std::string::npos);
  EXPECT_EQ(account("warmup_steps = 0\n").find(remark), std::string::npos);
}

}  // namespace
}  // namespace accel::torchtitan_import_test
