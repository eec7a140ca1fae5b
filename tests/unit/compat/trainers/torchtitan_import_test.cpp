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

}  // namespace
}  // namespace accel::torchtitan_import_test
