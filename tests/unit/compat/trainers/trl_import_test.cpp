// Configs of TRL: the load-balancing loss of experts, and the task of adapters.
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "tests/unit/compat/trainers/import_texts.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::trl_import_test {
namespace {

constexpr auto kData = "dataset_name: ./p.jsonl\ndataset_text_field: text\n";

class TrlImportTest : public testing::Test {
 protected:
  /// A config of a model folder with this config.json.
  std::string with_model(const std::string& model_config) {
    work_.write("model/config.json", model_config);
    return text("model_name_or_path: {}\n", work_.path("model")) + kData;
  }
  static bool has_line(const std::string& config, const std::string& line) {
    return reported("c.yaml", config).find(line + "\n") != std::string::npos;
  }

  TempFolder work_;
};

TEST_F(TrlImportTest, ExpertsHaveTheLoadBalancingLossOfTheirConfig) {
  const std::string own = R"("router_aux_loss_coef": 0.02, "output_router_logits": false})";
  for (const char* type : {"mixtral", "qwen2_moe", "qwen3_moe"}) {
    const std::string begin = text("{\"model_type\": \"{}\"", type);
    EXPECT_TRUE(has_line(with_model(begin + ", " + own), "  router_aux_loss_coef: 0.02")) << type;
    EXPECT_TRUE(has_line(with_model(begin + "}"), "  router_aux_loss_coef: 0.001")) << type;
    EXPECT_TRUE(has_line(with_model(begin + ", " + own) + "router_aux_loss_coef: 0\n",
                         "  router_aux_loss_coef: 0"))
        << type;
    EXPECT_TRUE(has_line(with_model(begin + ", " + own) + "beta: 0.1\nrouter_aux_loss_coef: 0.5\n",
                         "  router_aux_loss_coef: 0.5"))
        << type;
    EXPECT_FALSE(has_line(with_model(begin + ", " + own) + "center_rewards_coefficient: 0.01\n",
                          "  router_aux_loss_coef: 0.02"))
        << type;
  }
}

TEST_F(TrlImportTest, OtherModelsHaveNone) {
  const std::string llama = with_model(R"({"model_type": "llama"})");
  EXPECT_EQ(reported("c.yaml", llama).find("router_aux_loss_coef"), std::string::npos);
  EXPECT_EQ(refusal(llama + "router_aux_loss_coef: 0\n"), "");
  EXPECT_EQ(
      refusal(llama + "router_aux_loss_coef: 0.1\n"),
      "4: router_aux_loss_coef: a model of type 'llama' has no load-balancing loss | leave it "
      "out");
  EXPECT_TRUE(has_line(text("model_name_or_path: ./unheard\n{}router_aux_loss_coef: 0.1\n", kData),
                       "  router_aux_loss_coef: 0.1"));
}

TEST_F(TrlImportTest, TheTaskOfAnAdapterIsThatOfTheTrainer) {
  const std::string llama = with_model(R"({"model_type": "llama"})") + "use_peft: true\n";
  EXPECT_EQ(refusal(llama), "");
  EXPECT_EQ(refusal(llama + "lora_task_type: CAUSAL_LM\n"), "");
  EXPECT_EQ(refusal(llama + "lora_task_type: SEQ_CLS\n"),
            "5: lora_task_type: an adapter of 'SEQ_CLS' is not that of a language model | write "
            "'lora_task_type: CAUSAL_LM'");
  const std::string reward = llama + "center_rewards_coefficient: 0.01\n";
  const std::string remark =
      "  lora_task_type: with 'CAUSAL_LM' TRL leaves the head for rewards at its random weights, "
      "and the recipe trains it";
  EXPECT_TRUE(has_line(reward, remark));
  EXPECT_FALSE(has_line(reward + "lora_task_type: SEQ_CLS\n", remark));
  EXPECT_FALSE(has_line(reward + "lora_modules_to_save: [score]\n", remark));
}

TEST_F(TrlImportTest, RowsOfAPromptAndACompletionAreKnownByTheFileOrTheLoss) {
  const std::string model = "model_name_or_path: ./x\n";
  const std::vector<std::string> lines = {"    type: chat", "    prompt: prompt",
                                          "    completion: completion", "    answers: completion"};
  const std::string path =
      work_.write("rows.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\", \"text\": \"c\"}\n");
  const std::string local = model + text("dataset_name: {}\n", path);
  expect_lines(local, lines);
  EXPECT_EQ(reported("c.yaml", local).find("answers_only"), std::string::npos);
  expect_lines(local + "completion_only_loss: false\npacking: true\n",
               {"    answers: completion", "    answers_only: false", "    pack: true"});
  expect_lines(model + "dataset_name: org/rows\ncompletion_only_loss: true\n", lines);
  expect_lines(local + "assistant_only_loss: true\n",
               {"  c.yaml:3: assistant_only_loss: all messages of a completion are learnt"});
  expect_lines(model + kData + "completion_only_loss: true\n", lines);
  expect_lines(model + "dataset_name: " + work_.write("t.jsonl", "{\"text\": \"c\"}\n") +
                   "\ncompletion_only_loss: true\n",
               {"  c.yaml:3: completion_only_loss: it is for rows with a prompt and a completion"});
}

}  // namespace
}  // namespace accel::trl_import_test
