// Conversations as samples: the tokens of the whole text, the loss on what the assistant says.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/api/dataset.h"
#include "core/api/packed_sequences.h"
#include "core/api/targets.h"
#include "core/base/error.h"
#include "core/base/format_error.h"
#include "data/datasets/text/chat_encoder.h"
#include "data/loader/epoch_order.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/refusal.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::chat_test {
namespace {

/// "[CLS] good [SEP] bad film [SEP]": who speaks is given by the token in front.
constexpr auto kTemplate =
    "{% for m in messages %}{{ '[CLS] ' if m.role == 'user' else '[MASK] ' }}{{ m.content }} [SEP] "
    "{% endfor %}{% if add_generation_prompt %}{{ '[MASK] ' }}{% endif %}";

class ChatTest : public testing::Test {
 protected:
  std::string options(const std::string& more = "") {
    folder_.write("tokenizer.json", kSmallTokenizer);
    return "{type: chat, path: " + folder_.path("t.jsonl") +
           ", tokenizer: " + folder_.path("tokenizer.json") + (more.empty() ? "" : ", ") + more +
           "}";
  }
  std::unique_ptr<Dataset> dataset(const std::string& content, const std::string& more = "") {
    folder_.write("t.jsonl", content);
    folder_.write("chat_template.jinja", kTemplate);
    return build<Dataset>(options(more));
  }
  std::string refusal(const std::string& content, const std::string& more = "") {
    return refusal_in(folder_, [&] { dataset(content, more); });
  }

  std::string hint_of(const std::string& content, const std::string& more) {
    try {
      dataset(content, more);
    } catch (const DataError& error) {
      return error.hint();
    }
    return "";
  }

  TempFolder folder_;
};

using Numbers = std::vector<int64_t>;

Numbers numbers_of(const Array& array) {
  const auto values = array.as<int64_t>();
  return {values.begin(), values.end()};
}

constexpr int64_t kNo = kIgnoredTarget;
constexpr auto kTurns =
    R"({"messages": [{"role": "user", "content": "good film"}, {"role": "assistant", "content": "bad"},
 {"role": "user", "content": "film"}, {"role": "assistant", "content": "good good"}]})";

std::string one_line(std::string text) {
  std::erase(text, '\n');
  return text + "\n";
}

TEST_F(ChatTest, PackedConversationsAreCountedAndLearnNothingOfEachOther) {
  constexpr auto kShort =
      R"({"messages": [{"role": "user", "content": "good"}, {"role": "assistant", "content": "bad"}]})";
  const std::string lines = one_line(kShort) + one_line(kTurns) + one_line(kShort);
  const auto data = dataset(lines, "pack: true, max_length: 16");
  ASSERT_EQ(data->size(), 2);
  const Sample sample = data->sample(0);
  EXPECT_EQ(numbers_of(sample.input), (Numbers{2, 5, 3, 4, 6, 3, 2, 5, 3, 4, 6, 3}));
  EXPECT_EQ(numbers_of(sample.target),
            (Numbers{kNo, kNo, kNo, 6, 3, kNo, kNo, kNo, kNo, 6, 3, kNo}));
  EXPECT_EQ(numbers_of(sample.segments), (Numbers{1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(dynamic_cast<const KnowsLengths&>(*data).length(0), 12);
  EXPECT_EQ(numbers_of(data->sample(1).input).size(), 14U);
  EXPECT_TRUE(is_packed(data->shape()));

  const auto apart = dataset(lines, "max_length: 16");
  EXPECT_EQ(apart->size(), 3);
  EXPECT_FALSE(is_packed(apart->shape()));
  EXPECT_NE(apart->fingerprint(), data->fingerprint());

  const auto all = dataset(lines, "pack: true, max_length: 16, answers_only: false");
  EXPECT_EQ(numbers_of(all->sample(0).target), (Numbers{5, 3, 4, 6, 3, kNo, 5, 3, 4, 6, 3, kNo}));
}

TEST_F(ChatTest, TheLossIsOnTheAnswers) {
  const auto data = dataset(one_line(kTurns));
  ASSERT_EQ(data->size(), 1);
  const Sample sample = data->sample(0);
  EXPECT_EQ(numbers_of(sample.input), (Numbers{2, 5, 7, 3, 4, 6, 3, 2, 7, 3, 4, 5, 5, 3}));
  // The answer and what ends it; that the assistant speaks next is no part of it.
  EXPECT_EQ(numbers_of(sample.target),
            (Numbers{kNo, kNo, kNo, kNo, 6, 3, kNo, kNo, kNo, kNo, 5, 5, 3, kNo}));
  EXPECT_TRUE(sample.segments.empty());
  EXPECT_EQ(data->shape().vocab, 9);
  EXPECT_EQ(data->shape().input, (Shape{1024}));
  ASSERT_TRUE(data->shape().padding);
}

TEST_F(ChatTest, TheLastAnswerAloneOrAllTokens) {
  EXPECT_EQ(numbers_of(dataset(one_line(kTurns), "answers: last")->sample(0).target),
            (Numbers{kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo, 5, 5, 3, kNo}));
  EXPECT_EQ(numbers_of(dataset(one_line(kTurns), "answers_only: false")->sample(0).target),
            (Numbers{5, 7, 3, 4, 6, 3, 2, 7, 3, 4, 5, 5, 3, kNo}));
}

TEST_F(ChatTest, ACompletionIsAllThatFollowsThePrompt) {
  const std::string fields = "prompt: prompt, completion: completion, answers: completion";
  const std::string talk = one_line(
      R"({"prompt": [{"role": "user", "content": "good"}], "completion": [
{"role": "assistant", "content": "bad"}, {"role": "user", "content": "film"},
{"role": "assistant", "content": "good"}], "messages": [{"role": "user", "content": "other"}]})");
  const Sample messages = dataset(talk, fields)->sample(0);
  EXPECT_EQ(numbers_of(messages.input), (Numbers{2, 5, 3, 4, 6, 3, 2, 7, 3, 4, 5, 3}));
  EXPECT_EQ(numbers_of(messages.target), (Numbers{kNo, kNo, kNo, 6, 3, 2, 7, 3, 4, 5, 3, kNo}));
  const std::string texts = R"({"prompt": "good", "completion": " film bad"})"
                            "\n";
  const auto raw = dataset(texts, fields);
  EXPECT_EQ(numbers_of(raw->sample(0).input), (Numbers{2, 5, 7, 6, 3}));
  EXPECT_EQ(numbers_of(raw->sample(0).target), (Numbers{kNo, 7, 6, 3, kNo}));
  EXPECT_NE(raw->fingerprint(),
            dataset(texts, "prompt: prompt, completion: completion")->fingerprint());
  EXPECT_EQ(numbers_of(dataset(texts, fields + ", answers_only: false")->sample(0).target),
            (Numbers{5, 7, 6, 3, kNo}));
  EXPECT_EQ(refusal(talk, fields + ", max_length: 4"),
            "t.jsonl:1: no token of an answer is within 4 tokens, which is 'max_length'; the "
            "prompt has 4");
}

TEST_F(ChatTest, PromptsAndCompletionsAreTwoTurns) {
  const auto data =
      dataset("{\"ask\": \"good\", \"say\": \"film\"}\n", "prompt: ask, completion: say");
  EXPECT_EQ(numbers_of(data->sample(0).input), (Numbers{2, 5, 3, 4, 7, 3}));
  EXPECT_EQ(numbers_of(data->sample(0).target), (Numbers{kNo, kNo, kNo, 7, 3, kNo}));
}

TEST_F(ChatTest, KeysAndRolesOfShareGptAreMapped) {
  const std::string row =
      "{\"conversations\": [{\"from\": \"human\", \"value\": \"good\"}, {\"from\": \"gpt\", "
      "\"value\": \"film\"}]}\n";
  const auto data = dataset(row,
                            "messages: conversations, role_key: from, content_key: value, roles: "
                            "{human: user, gpt: assistant}");
  EXPECT_EQ(numbers_of(data->sample(0).input), (Numbers{2, 5, 3, 4, 7, 3}));
  EXPECT_EQ(numbers_of(data->sample(0).target), (Numbers{kNo, kNo, kNo, 7, 3, kNo}));
  EXPECT_EQ(hint_of(row, "messages: conversations"),
            "it has the keys 'from', 'value': name them with 'role_key' and 'content_key', such as "
            "{role_key: from, content_key: value}");
  EXPECT_EQ(hint_of(row, "messages: conversations, role_key: from, content_key: value"),
            "its roles are 'gpt', 'human': map them with 'roles', such as {human: user, gpt: "
            "assistant}");
  EXPECT_EQ(hint_of(row, ""),
            "it has the fields 'conversations': name the list with 'messages', or texts with "
            "'prompt' and 'completion'");
  EXPECT_EQ(hint_of("{}\n", ""), "it has no fields");
}

TEST_F(ChatTest, AnInstructionAndItsInputAreOnePrompt) {
  const std::string alpaca = "prompt: [instruction, input], completion: output";
  const auto data = dataset(R"({"instruction": "good", "input": "film", "output": "bad"})"
                            "\n"
                            R"({"instruction": "good", "input": "", "output": "bad"})"
                            "\n"
                            R"({"instruction": "good", "output": "bad"})"
                            "\n",
                            alpaca);
  ASSERT_EQ(data->size(), 3);
  EXPECT_EQ(numbers_of(data->sample(0).input), (Numbers{2, 5, 7, 3, 4, 6, 3}));
  EXPECT_EQ(numbers_of(data->sample(1).input), (Numbers{2, 5, 3, 4, 6, 3}));
  EXPECT_EQ(numbers_of(data->sample(2).input), (Numbers{2, 5, 3, 4, 6, 3}));
  EXPECT_EQ(refusal(R"({"instruction": " ", "input": "", "output": "bad"})"
                    "\n",
                    alpaca),
            "t.jsonl:1: has an empty text in the field 'instruction'");
}

TEST_F(ChatTest, ASystemFieldComesFirstAndListsAreMessages) {
  EXPECT_EQ(numbers_of(dataset(R"({"system": "bad", "ask": "good", "say": "film"})"
                               "\n",
                               "system: system, prompt: ask, completion: say")
                           ->sample(0)
                           .input),
            (Numbers{4, 6, 3, 2, 5, 3, 4, 7, 3}));
  EXPECT_EQ(numbers_of(dataset(R"({"prompt": [{"role": "user", "content": "good"}],)"
                               R"( "completion": [{"role": "assistant", "content": "film"}]})"
                               "\n",
                               "prompt: prompt, completion: completion")
                           ->sample(0)
                           .input),
            (Numbers{2, 5, 3, 4, 7, 3}));
}

TEST_F(ChatTest, AnArrayOfRowsIsReadAndBadRowsCanBeSkipped) {
  const std::string good = R"({"messages": [{"role": "assistant", "content": "good"}]})";
  EXPECT_EQ(dataset("[" + good + ",\n" + good + "]")->size(), 2);
  EXPECT_EQ(dataset("[" + good + ",\n{\"messages\": 1}]", "on_bad_sample: skip(1)")->size(), 1);
}

TEST_F(ChatTest, LongConversationsAreCut) {
  const auto data = dataset(one_line(kTurns), "max_length: 6");
  EXPECT_EQ(numbers_of(data->sample(0).input), (Numbers{2, 5, 7, 3, 4, 6}));
  EXPECT_EQ(numbers_of(data->sample(0).target), (Numbers{kNo, kNo, kNo, kNo, 6, kNo}));
  EXPECT_EQ(refusal(one_line(kTurns), "max_length: 5"),
            "t.jsonl:1: no answer begins within 5 tokens, which is 'max_length'");
  const auto all = dataset(one_line(kTurns), "max_length: 5, answers_only: false");
  EXPECT_EQ(numbers_of(all->sample(0).target), (Numbers{5, 7, 3, 4, kNo}));
}

TEST_F(ChatTest, WhatDecidesOnTheTokensIsPartOfTheFingerprint) {
  const std::string plain = dataset(one_line(kTurns))->fingerprint();
  EXPECT_EQ(dataset(one_line(kTurns))->fingerprint(), plain);
  EXPECT_NE(dataset(one_line(kTurns), "answers: last")->fingerprint(), plain);
  EXPECT_NE(dataset(one_line(kTurns), "max_length: 6")->fingerprint(), plain);
  EXPECT_NE(dataset(one_line(kTurns), "roles: {system: user}")->fingerprint(), plain);
  folder_.write("other.jinja", "[SEP] " + std::string(kTemplate));
  EXPECT_NE(
      dataset(one_line(kTurns), "chat_template: " + folder_.path("other.jinja"))->fingerprint(),
      plain);
}

TEST_F(ChatTest, RefusesLinesThatAreNoConversation) {
  const std::string good = "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}\n";
  const auto second = [&](const std::string& line) { return refusal(good + "\n" + line + "\n"); };
  EXPECT_EQ(second("[]"), "t.jsonl:3: is not a JSON object");
  EXPECT_EQ(second("{"), "t.jsonl:3: is not a JSON object");
  EXPECT_EQ(second("{\"a\": " + std::string(99, '[') + std::string(99, ']') + "}"),
            "t.jsonl:3: nests deeper than 64 levels");
  EXPECT_EQ(second("{}"), "t.jsonl:3: has no list of messages");
  EXPECT_EQ(second("{\"messages\": [1]}"), "t.jsonl:3: message 1 has no role");
  EXPECT_EQ(second("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}"),
            "t.jsonl:3: has no message of the role 'assistant', so nothing to learn");
  EXPECT_EQ(refusal("\n"), "'t.jsonl' has no lines");
  EXPECT_EQ(refusal("{\"a\": 1}\n", "prompt: a, completion: b"),
            "t.jsonl:1: has no text in the field 'a'");
}

TEST_F(ChatTest, RefusesATemplateThatIsMissingOrWrong) {
  folder_.write("t.jsonl", one_line(kTurns));
  const auto complaint_without_folder = [&](const std::string& more) {
    std::string text = complaint<Dataset>(options(more));
    const size_t at = text.find(folder_.path());
    return at == std::string::npos ? text : text.erase(at, folder_.path().size() + 1);
  };
  EXPECT_EQ(complaint_without_folder(""), "the tokenizer 'tokenizer.json' has no chat template");
  folder_.write("bad.jinja", "\n{% include 'a' %}");
  EXPECT_EQ(complaint_without_folder("chat_template: " + folder_.path("bad.jinja")),
            "the chat template of 'bad.jinja': line 2: the statement 'include' is not supported");
}

TEST_F(ChatTest, AnAnswerThatIsWrittenAnotherWayAtTheEndHasItsPosition) {
  const auto learnt = [&](const std::string& source, const std::string& more = "") {
    folder_.write("other.jinja", source);
    return numbers_of(
        dataset(one_line(kTurns), "chat_template: " + folder_.path("other.jinja") + more)
            ->sample(0)
            .target);
  };
  // A word before the last answer alone.
  EXPECT_EQ(learnt("{% for m in messages %}{{ 'good ' if loop.last and m.role != 'user' }}{{ "
                   "m.content }} [SEP] {% endfor %}"),
            (Numbers{kNo, kNo, 6, 3, kNo, kNo, 5, 5, 5, 3, kNo}));
  // A last token once, as Phi-3 writes it, and a prompt that earlier answers lack, as of DeepSeek.
  constexpr auto kEnding =
      "{% for m in messages %}{{ '[CLS] ' if m.role == 'user' else '[MASK] ' }}{{ m.content }} "
      "[SEP] {% endfor %}{{ '[MASK] film ' if add_generation_prompt else '[PAD]' }}";
  EXPECT_EQ(learnt(kEnding),
            (Numbers{kNo, kNo, kNo, kNo, 6, 3, kNo, kNo, kNo, kNo, 5, 5, 3, 0, kNo}));
  EXPECT_EQ(learnt(kEnding, ", answers: last"),
            (Numbers{kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo, 5, 5, 3, 0, kNo}));
}

TEST_F(ChatTest, RefusesATemplateThatHidesWhereAnAnswerIs) {
  folder_.write("changing.jinja",
                "{% for m in messages %}{{ 'good ' if loop.last and m.role != 'user' }}{{ "
                "m.content }} {{ m.content }} [SEP] {% endfor %}");
  const std::string other = "chat_template: " + folder_.path("changing.jinja");
  EXPECT_EQ(refusal(one_line(kTurns), other),
            "t.jsonl:1: the template writes message 2 differently when it is the last one, so its "
            "trained tokens are ambiguous");
  EXPECT_EQ(refusal(one_line(kTurns), other + ", answers: last"), "");
}

TEST_F(ChatTest, GenerationBlocksAreWhatIsLearnt) {
  folder_.write(
      "blocks.jinja",
      "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% else %}[MASK] {% "
      "generation %}{{ m.content }}{% endgeneration %}{% endif %} [SEP] {% endfor %}");
  const std::string blocks = "chat_template: " + folder_.path("blocks.jinja");
  EXPECT_EQ(numbers_of(dataset(one_line(kTurns), blocks)->sample(0).target),
            (Numbers{kNo, kNo, kNo, 6, kNo, kNo, kNo, kNo, 5, 5, kNo, kNo}));
  EXPECT_EQ(numbers_of(dataset(one_line(kTurns), blocks + ", answers: last")->sample(0).target),
            (Numbers{kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo, 5, 5, kNo, kNo}));
  EXPECT_EQ(refusal(R"({"messages": [{"role": "assistant", "content": ""}]})"
                    "\n",
                    blocks),
            "t.jsonl:1: the template's generation blocks write nothing of this conversation");
  folder_.write("inside.jinja",
                "{% macro say(m) %}{% generation %}{{ m.content }}{% endgeneration %}{% endmacro "
                "%}{% for m in messages %}{{ say(m) }}{% endfor %}");
  EXPECT_EQ(refusal(one_line(kTurns), "chat_template: " + folder_.path("inside.jinja")),
            "t.jsonl:1: line 1: a generation block inside a macro, a set block or a filter block "
            "has no position in the text");
}

TEST_F(ChatTest, TheTemplateHasTheVariablesOfTransformers) {
  folder_.write(
      "all.jinja",
      "{% generation %}{{ 'good ' if tools is none and documents is none and bos_token is not "
      "defined }}"
      "{{ 'film ' if messages[0].thinking == 'r' and messages[0].reasoning_content == 'r' }}"
      "{{ 'bad ' if messages[0].name is not defined and sep_token == '[SEP]' }}"
      "{{ messages[0].content }}{% endgeneration %}");
  EXPECT_EQ(numbers_of(dataset(R"({"messages": [{"role": "assistant", "content": "good",)"
                               R"( "reasoning": "r", "name": null}]})"
                               "\n",
                               "answers_only: false, chat_template: " + folder_.path("all.jinja"))
                           ->sample(0)
                           .input),
            (Numbers{5, 7, 6, 5}));
}

TEST_F(ChatTest, TheDateIsAnOption) {
  folder_.write("dated.jinja",
                "{% generation %}{{ 'good' if strftime_now('%Y') == '2026' else 'bad' }} [SEP] {{ "
                "messages[0].content }}{% endgeneration %}");
  const std::string line = R"({"messages": [{"role": "assistant", "content": "film"}]})"
                           "\n";
  const std::string dated = "answers_only: false, chat_template: " + folder_.path("dated.jinja");
  EXPECT_EQ(refusal(line, dated), "t.jsonl:1: line 1: calls 'strftime_now', but no 'date' is set");
  const auto data = dataset(line, dated + ", date: 2026-11-26");
  EXPECT_EQ(numbers_of(data->sample(0).input), (Numbers{5, 3, 7}));
  EXPECT_NE(dataset(line, dated + ", date: 2025-11-26")->fingerprint(), data->fingerprint());
  folder_.write("optional.jinja",
                "{% generation %}[SEP] {{ messages[0].content if strftime_now is undefined }}{% "
                "endgeneration %}");
  testing::internal::CaptureStderr();
  dataset(line, "answers_only: false, chat_template: " + folder_.path("optional.jinja"));
  std::string warning = testing::internal::GetCapturedStderr();
  warning.erase(warning.find(folder_.path()), folder_.path().size() + 1);
  EXPECT_EQ(
      warning,
      "warning: 'date' is not set, so the chat template of 'optional.jinja' writes its default "
      "date\n");
  EXPECT_NE(complaint<Dataset>(options("date: tomorrow"))
                .find("'tomorrow' is not a date such as '2026-11-26' or '2026-11-26 17:30'"),
            std::string::npos);
}

struct FormCase {
  const char* name;
  const char* row;
  Numbers input;
  const char* said;
};

class ChatFormTest : public ChatTest, public testing::WithParamInterface<FormCase> {};

TEST_P(ChatFormTest, IsRecognizedAndPrinted) {
  testing::internal::CaptureStdout();
  const auto data = dataset(one_line(GetParam().row), "format: auto");
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "'" + folder_.path("t.jsonl") + "': 1 rows of " + GetParam().said + "\n");
  EXPECT_EQ(numbers_of(data->sample(0).input), GetParam().input);
}

INSTANTIATE_TEST_SUITE_P(
    Forms, ChatFormTest,
    testing::Values(
        FormCase{"Messages",
                 R"({"messages": [{"role": "user", "content": "good"},
                     {"role": "assistant", "content": "film"}]})",
                 {2, 5, 3, 4, 7, 3},
                 "messages"},
        FormCase{"ShareGpt",
                 R"({"system": "bad", "conversations": [{"from": "human", "value": "good"},
                     {"from": "gpt", "value": "film"}]})",
                 {4, 6, 3, 2, 5, 3, 4, 7, 3},
                 "ShareGPT conversations"},
        FormCase{"Alpaca",
                 R"({"instruction": "good", "input": "film", "output": "bad"})",
                 {2, 5, 7, 3, 4, 6, 3},
                 "alpaca's instructions"},
        FormCase{"AlpacaWithSystem",
                 R"({"system": "film", "instruction": "good", "input": "", "output": "bad"})",
                 {4, 7, 3, 2, 5, 3, 4, 6, 3},
                 "alpaca's instructions"},
        FormCase{"Dolly",
                 R"({"instruction": "good", "context": "film", "response": "bad"})",
                 {2, 5, 7, 3, 4, 6, 3},
                 "instructions with a response"},
        FormCase{"PromptAndCompletion",
                 R"({"prompt": "good", "completion": "bad"})",
                 {2, 5, 3, 4, 6, 3},
                 "prompts with a completion"},
        FormCase{"ListsOfMessages",
                 R"({"prompt": [{"role": "user", "content": "good"}],
                     "completion": [{"role": "assistant", "content": "bad"}]})",
                 {2, 5, 3, 4, 6, 3},
                 "prompts with a completion"},
        FormCase{"Question",
                 R"({"question": "good", "answer": "bad"})",
                 {2, 5, 3, 4, 6, 3},
                 "questions with an answer"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(ChatTest, CallsOfToolsAreTheAssistants) {
  folder_.write("tools.jinja",
                "{% generation %}{% for m in messages %}{% if m.tool_calls %}{{ "
                "m.tool_calls[0].function.arguments.x "
                "}}{% else %}{{ m.content }}{% endif %} [SEP] {% endfor %}{{ tools[0].name }}{% "
                "endgeneration %}");
  const std::string options =
      "format: auto, answers_only: false, chat_template: " + folder_.path("tools.jinja");
  const std::string row = one_line(
      R"({"conversations": [{"from": "human", "value": "good"},
 {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": \"film\"}}"},
 {"from": "observation", "value": "bad"}, {"from": "gpt", "value": "good"}],
 "tools": "[{\"name\": \"film\"}]"})");
  EXPECT_EQ(numbers_of(dataset(row, options)->sample(0).input),
            (Numbers{5, 3, 7, 3, 6, 3, 5, 3, 7}));
  const auto with = [&](const std::string& value) {
    return refusal(R"({"conversations": [{"from": "function_call", "value": ")" + value + "\"}]}\n",
                   options);
  };
  EXPECT_EQ(
      with("f()"),
      "t.jsonl:1: has a message of the role 'function_call' whose text is not JSON of a call");
  EXPECT_EQ(refusal(R"({"messages": [{"role": "assistant", "content": "a"}], "tools": "f"})"
                    "\n",
                    options),
            "t.jsonl:1: has a text as 'tools' that is not JSON of a list");
}

TEST_F(ChatTest, RefusesRowsOfAnUnknownForm) {
  EXPECT_EQ(refusal(R"({"text": "good"})"
                    "\n",
                    "format: auto"),
            "t.jsonl:1: is of no form that 'format: auto' knows");
  EXPECT_EQ(refusal(R"({"instruction": "a", "output": "b", "history": [["c", "d"]]})"
                    "\n",
                    "format: auto"),
            "t.jsonl:1: has earlier turns in 'history', which no option reads");
  EXPECT_NE(complaint<Dataset>(options("format: auto, system: s"))
                .find("'format: auto' recognizes the fields, so 'system' has no effect"),
            std::string::npos);
  // As in the recipe of a run, with all defaults.
  const std::string defaults =
      "format: auto, messages: messages, role_key: role, content_key: content, roles: {}, "
      "system: '', prompt: [], completion: ''";
  EXPECT_EQ(complaint<Dataset>(options(defaults)).find("has no effect"), std::string::npos);
}

}  // namespace
}  // namespace accel::chat_test
