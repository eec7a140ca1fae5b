#include <gtest/gtest.h>

#include "core/api/callback.h"
#include "core/api/text_generator.h"
#include "tests/unit/build_component.h"

namespace accel::generate_test {
namespace {

/// Writes what it was asked.
class AskedTexts final : public TextGenerator {
 public:
  void check_prompt(const std::string& prompt) const override {
    if (prompt == "?") throw Error(ExitCode::kRecipe, "no token for '?'");
  }
  GeneratedText generate(const std::string& /*prompt*/, const SamplingOptions& options,
                         uint64_t stream) override {
    ++calls;
    return {" seed " + std::to_string(options.seed) + " stream " + std::to_string(stream) +
                " tokens " + std::to_string(options.max_new_tokens),
            1, false};
  }
  int calls = 0;
};

CallbackContext context_with(std::shared_ptr<TextGenerator> texts, bool evaluates = true) {
  CallbackContext context;
  context.texts = std::move(texts);
  if (evaluates) context.metrics = {"eval/loss"};
  context.length.steps_per_epoch = 4;
  return context;
}

std::vector<std::string> lines_of(Callback& callback) {
  std::vector<std::string> lines;
  for (const CallbackText& item : callback.take_texts())
    lines.push_back(item.tag + "=" + item.text);
  return lines;
}

using Lines = std::vector<std::string>;

TEST(GenerateCallbackTest, WritesBehindEachEvaluation) {
  const auto generate = build<Callback>("{type: generate, prompts: [a, b], seed: 7}",
                                        context_with(std::make_shared<AskedTexts>()));
  generate->on_step(1);
  EXPECT_EQ(lines_of(*generate), Lines{});
  generate->on_eval(1, {});
  EXPECT_EQ(lines_of(*generate), (Lines{"generated/0=a seed 7 stream 0 tokens 100",
                                        "generated/1=b seed 7 stream 1 tokens 100"}));
  EXPECT_EQ(lines_of(*generate), Lines{});  // reported once
}

TEST(GenerateCallbackTest, WritesEverySoManySteps) {
  const auto generate =
      build<Callback>("{type: generate, prompts: a, every: 0.5 epochs, max_new_tokens: 3}",
                      context_with(std::make_shared<AskedTexts>(), false));
  Lines found;
  for (int64_t step = 1; step <= 5; ++step) {
    generate->on_step(step);
    for (const std::string& line : lines_of(*generate)) {
      found.push_back(std::to_string(step) + " " + line);
    }
  }
  generate->on_eval(5, {});
  EXPECT_EQ(lines_of(*generate), Lines{});
  EXPECT_EQ(found, (Lines{"2 generated/0=a seed 42 stream 0 tokens 3",
                          "4 generated/0=a seed 42 stream 0 tokens 3"}));
}

TEST(GenerateCallbackTest, GeneratesNothingBeforeACheckpointIsRestored) {
  const auto texts = std::make_shared<AskedTexts>();
  const auto generate = build<Callback>("{type: generate, prompts: [a, b]}", context_with(texts));
  EXPECT_EQ(texts->calls, 0);
  generate->on_eval(1, {});
  EXPECT_EQ(texts->calls, 2);
}

TEST(GenerateCallbackTest, RefusesWhatItCannotDo) {
  const auto texts = std::make_shared<AskedTexts>();
  EXPECT_EQ(complaint<Callback>("{type: generate, prompts: [a]}", context_with(nullptr)),
            "'generate' needs a language model and text data");
  EXPECT_EQ(complaint<Callback>("{type: generate, prompts: []}", context_with(texts)),
            "recipe.yaml:1:27: error: 'prompts' is missing\n"
            "    {type: generate, prompts: []}\n"
            "                              ^\n"
            "  hint: add 'prompts': Prompts, each completed and logged separately.\n");
  EXPECT_EQ(complaint<Callback>("{type: generate, prompts: [a]}", context_with(texts, false)),
            "'generate' runs after evaluations, but there are none");
  EXPECT_EQ(
      complaint<Callback>("{type: generate, prompts: [a], every: 10 tokens}", context_with(texts)),
      "'10 tokens' is not a number of steps in this run");
  EXPECT_EQ(complaint<Callback>("{type: generate, prompts: [a, '?']}", context_with(texts)),
            "no token for '?'");
}

}  // namespace
}  // namespace accel::generate_test
