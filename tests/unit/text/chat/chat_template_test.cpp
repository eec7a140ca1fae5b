// Chat templates: output of transformers (tests/interop/check_chat_templates.py), and refused
// templates.
#include "text/chat/chat_template.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::chat_template_test {
namespace {

using Json = nlohmann::ordered_json;

std::string golden_text(const std::string& name) {
  const char* source = std::getenv("ACCEL_SOURCE_DIR");
  std::ifstream file(std::string(source ? source : ".") + "/tests/unit/text/golden/chat/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string rendered(const std::string& source, const Json& variables = Json::object()) {
  return ChatTemplate(source).render(variables);
}

class GoldenChatTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenChatTest, GivesTheTextsOfTransformers) {
  const Json conversations = Json::parse(golden_text("conversations.json"));
  const Json expected = Json::parse(golden_text("expected.json")).at(GetParam());
  const ChatTemplate chat(golden_text(GetParam() + ".jinja"));
  for (size_t i = 0; i < expected.size(); ++i) {
    Json variables = conversations[i / 2];
    variables["add_generation_prompt"] = i % 2 == 1;
    variables["bos_token"] = "<s>";
    variables["eos_token"] = "</s>";
    if (expected[i].is_null()) {
      EXPECT_THROW(chat.render(variables), FormatError) << i;
    } else {
      EXPECT_EQ(chat.render(variables), expected[i].get<std::string>()) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenChatTest,
                         testing::Values("chatml", "gemma", "llama3", "marked", "mistral", "qwen2",
                                         "qwen3", "zephyr"),
                         [](const auto& info) { return info.param; });

struct RefusalCase {
  const char* source;
  const char* message;
};

class RefusedTemplateTest : public testing::TestWithParam<RefusalCase> {};

TEST_P(RefusedTemplateTest, SaysTheLineAndWhy) {
  try {
    rendered(GetParam().source, {{"x", "text"}, {"list", {1, 2}}});
    FAIL() << "it was not refused";
  } catch (const FormatError& error) {
    EXPECT_STREQ(error.what(), GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Templates, RefusedTemplateTest,
    testing::Values(
        RefusalCase{"a\n{% macro m() %}{% endmacro %}",
                    "line 2: the statement 'macro' is not supported"},
        RefusalCase{"{% raw %}{% endraw %}", "line 1: the statement 'raw' is not supported"},
        RefusalCase{"{{ x | title }}", "line 1: the filter 'title' is not supported"},
        RefusalCase{"{{ x is callable }}", "line 1: the test 'callable' is not supported"},
        RefusalCase{"{{ x.format(1) }}",
                    "line 1: the method 'format' of a string is not supported"},
        RefusalCase{"{{ {'a': 1}.pop() }}", "line 1: the method 'pop' of a dict is not supported"},
        RefusalCase{"{{ list.append(1) }}", "line 1: the method 'append' is not supported"},
        RefusalCase{"{{ x.y.z() }}", "line 1: calls 'z' of an undefined value"},
        RefusalCase{"{{ dict(3) }}", "line 1: 'dict' requires keyword arguments"},
        RefusalCase{"{{ x - 1 }}", "line 1: '-' requires numbers"},
        RefusalCase{"{{ 1.5 // 2 }}", "line 1: '//' requires integers"},
        RefusalCase{"{{ 1 + and }}", "line 1: expected a value, found 'and'"},
        RefusalCase{"{{ strftime_now('%d') }}",
                    "line 1: the function 'strftime_now' is not supported"},
        RefusalCase{"\n\n{{ raise_exception('no ' ~ x) }}",
                    "line 3: the template raised 'no text'"},
        RefusalCase{"{{ y.z }}", "line 1: 'y' is not defined"},
        RefusalCase{"{{ x.y.z }}", "line 1: reads a member of an undefined value"},
        RefusalCase{"{{ list }}", "line 1: prints a list or a dict: use 'tojson'"},
        RefusalCase{"{{ x + 1 }}", "line 1: adds a string and a number"},
        RefusalCase{"{{ 1 < x }}", "line 1: compares values without an order"},
        RefusalCase{"{{ 1 < 2 < 3 }}", "line 1: chained comparisons are not supported"},
        RefusalCase{"{{ 1 // 0 }}", "line 1: divides by 0"},
        RefusalCase{"{{ 9223372036854775807 + 1 }}", "line 1: computes a number that is too large"},
        RefusalCase{"{{ 10000000000000000000.0 | int }}",
                    "line 1: computes a number that is too large"},
        RefusalCase{"{{ 99999999999999999999 }}", "line 1: has a number that is too large"},
        RefusalCase{"{{ (1, 2) }}", "line 1: tuples are not supported: use a list"},
        RefusalCase{"{{ x", "line 1: a tag is not closed"},
        RefusalCase{"{{ 'x }}", "line 1: a string is not closed"},
        RefusalCase{"{# x", "line 1: a comment is not closed"},
        RefusalCase{"{{ x ) }}", "line 1: has an unmatched ')'"},
        RefusalCase{"{{ x ! }}", "line 1: has the character '!', which is not part of Jinja"},
        RefusalCase{"{{ '\\N' }}", "line 1: has an unsupported escape"},
        RefusalCase{"{% if x %}\n", "line 1: a statement has no 'endif'"},
        RefusalCase{"{% endif %}", "line 1: 'endif' without an opening statement"},
        RefusalCase{"{% for a in x recursive %}{% endfor %}",
                    "line 1: recursive loops are not supported"},
        RefusalCase{"{% for a in 3 %}{% endfor %}",
                    "line 1: loops over a value that is not a list"},
        RefusalCase{"{% for a, b in list %}{% endfor %}",
                    "line 1: a loop over pairs has an item that is not a pair"},
        RefusalCase{"{% set a, b = list %}", "line 1: setting several names is not supported"},
        RefusalCase{"{% set x.y = 1 %}", "line 1: 'x' is not a namespace"},
        RefusalCase{"{{ x x }}", "line 1: unexpected 'x'"},
        RefusalCase{"{{ }}", "line 1: expected a value, found the end"},
        RefusalCase{"{{ x[] }}", "line 1: expected an index in the brackets"},
        RefusalCase{"{{ range(1000000) }}", "line 1: 'range' is too long"},
        RefusalCase{"{{ x | tojson(sort_keys=true) }}",
                    "line 1: 'tojson' with 'sort_keys' is not supported"},
        RefusalCase{"{{ x | trim('a', 'b') }}", "line 1: 'trim' with 2 arguments is not supported"},
        RefusalCase{"{{ x | replace('', 'y') }}",
                    "line 1: 'replace' requires a string to search for"}),
    [](const auto& info) { return std::to_string(info.index); });

std::string refusal(const std::string& source) {
  try {
    rendered(source);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

TEST(ChatTemplateTest, LimitsTimeAndSize) {
  const std::string loops =
      "{% for a in range(50000) %}{% for b in range(50000) %}{% endfor %}{% endfor %}";
  EXPECT_EQ(refusal(loops), "line 1: takes too long");
  const std::string doubles = "{% set ns = namespace(a='aaaaaaaa') %}{% for i in range(60) %}";
  EXPECT_EQ(refusal(doubles + "{% set ns.a = ns.a + ns.a %}{% endfor %}"),
            "line 1: builds a string that is too long");
  EXPECT_EQ(refusal(doubles + "{% set ns.a = [ns.a, ns.a] %}{% endfor %}"),
            "line 1: takes too long");
  EXPECT_EQ(refusal("{{ " + std::string(500, '(') + "1" + std::string(500, ')') + " }}"),
            "line 1: is nested too deeply");
  std::string chain = "{{ a";
  for (int i = 0; i < 500; ++i) chain += ".a";
  EXPECT_EQ(refusal(chain + " }}"), "line 1: is nested too deeply");
  EXPECT_EQ(refusal(std::string(300'000, 'a')), "is longer than 256 KiB");
}

TEST(ChatTemplateTest, IsFoundBesideTheTokenizer) {
  const TempFolder folder;
  EXPECT_EQ(find_chat_template(folder.path()), std::nullopt);
  folder.write("tokenizer_config.json", "{}");
  EXPECT_EQ(find_chat_template(folder.path()), std::nullopt);
  folder.write("tokenizer_config.json", R"({"chat_template": "one"})");
  EXPECT_EQ(find_chat_template(folder.path()), "one");
  EXPECT_EQ(find_chat_template(folder.path("tokenizer.json")), "one");
  folder.write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]})");
  EXPECT_EQ(find_chat_template(folder.path()), "b");
  folder.write("chat_template.jinja", "own");
  EXPECT_EQ(find_chat_template(folder.path()), "own");
}

}  // namespace
}  // namespace accel::chat_template_test
