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

/// Templates of one feature each, with the variables of check_chat_templates.py.
TEST(ChatTemplateTest, WritesWhatTransformersWrites) {
  const Json sources = Json::parse(golden_text("snippets.json"));
  const Json expected = Json::parse(golden_text("expected.json")).at("snippets");
  const Json variables = Json::parse(R"({"messages": [{"role": "user", "content": "hi"},
      {"role": "assistant", "content": "ho"}], "name": "Ada", "documents": null,
      "add_generation_prompt": false,
      "tree": [{"name": "a", "kids": [{"name": "b", "kids": []}, {"name": "c"}]}],
      "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
        "properties": {"place": {"type": "string"},
                       "days": {"type": "integer", "nullable": true}}}}}]})");
  ASSERT_EQ(sources.size(), expected.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto source = sources[i].get<std::string>();
    Json written = nullptr;
    try {
      written = ChatTemplate(source, ChatDate("2026-11-26")).render(variables);
    } catch (const FormatError& error) {
      EXPECT_EQ(expected[i], nullptr) << source << "\n" << error.what();
      continue;
    }
    EXPECT_EQ(written, expected[i]) << source;
  }
}

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
        RefusalCase{"a\n{% include 'x' %}", "line 2: the statement 'include' is not supported"},
        RefusalCase{"{% macro m() %}", "line 1: a statement has no 'endmacro'"},
        RefusalCase{"{% macro m(a=1, b) %}{% endmacro %}",
                    "line 1: has a parameter without a default after one with a default"},
        RefusalCase{"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
                    "line 1: the macro 'm' takes 1 arguments, not 2"},
        RefusalCase{"{% macro m(a) %}{% endmacro %}\n{{ m(b=1) }}",
                    "line 2: the macro 'm' has no parameter 'b'"},
        RefusalCase{"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
                    "line 1: calls macros too deeply"},
        RefusalCase{"{% macro m() %}{% endmacro %}{{ m }}",
                    "line 1: prints a function or a namespace"},
        RefusalCase{"{% call x %}{% endcall %}", "line 1: 'call' requires a call"},
        RefusalCase{"{{ lipsum() }}", "line 1: the function 'lipsum' is not supported"},
        RefusalCase{"{{ x() }}", "line 1: calls a value that is not a function"},
        RefusalCase{"{% raw %}{{ x", "line 1: a statement has no 'endraw'"},
        RefusalCase{"{{ x | wordwrap }}", "line 1: the filter 'wordwrap' is not supported"},
        RefusalCase{"{{ x is filter }}", "line 1: the test 'filter' is not supported"},
        RefusalCase{"{{ x is sameas x }}", "line 1: 'sameas' requires true, false or none"},
        RefusalCase{"{{ x.encode() }}", "line 1: the method 'encode' of a string is not supported"},
        RefusalCase{"{{ {'a': 1}.pop() }}", "line 1: the method 'pop' of a dict is not supported"},
        RefusalCase{"{{ list.append(1) }}",
                    "line 1: the method 'append' of a list is not supported"},
        RefusalCase{"{{ 1.bit_count() }}", "line 1: the method 'bit_count' is not supported"},
        RefusalCase{"{{ x.y.z() }}", "line 1: calls 'z' of an undefined value"},
        RefusalCase{"{{ dict(3) }}", "line 1: 'dict' requires a dict or keyword arguments"},
        RefusalCase{"{{ x - 1 }}", "line 1: '-' requires numbers"},
        RefusalCase{"{{ 1 + and }}", "line 1: expected a value, found 'and'"},
        RefusalCase{"{{ strftime_now('%d') }}",
                    "line 1: calls 'strftime_now', but no 'date' is set"},
        RefusalCase{"\n\n{{ raise_exception('no ' ~ x) }}",
                    "line 3: the template raised 'no text'"},
        RefusalCase{"{{ y.z }}", "line 1: 'y' is not defined"},
        RefusalCase{"{{ x.y.z }}", "line 1: reads a member of an undefined value"},
        RefusalCase{"{{ x + 1 }}", "line 1: adds a string and a number"},
        RefusalCase{"{{ 1 < x }}", "line 1: compares values without an order"},
        RefusalCase{"{{ 1 // 0 }}", "line 1: divides by 0"},
        RefusalCase{"{{ {1.5: 2} }}", "line 1: a dict key is no string and no integer"},
        RefusalCase{"{{ 10 ** 20 }}", "line 1: computes a number that is too large"},
        RefusalCase{"{{ 9223372036854775807 + 1 }}", "line 1: computes a number that is too large"},
        RefusalCase{"{{ 10000000000000000000.0 | int }}",
                    "line 1: computes a number that is too large"},
        RefusalCase{"{{ 99999999999999999999 }}", "line 1: has a number that is too large"},
        RefusalCase{"{{ 'ab' * 9999999 }}", "line 1: builds a string that is too long"},
        RefusalCase{"{{ [1] * 9999999 }}", "line 1: builds a list that is too long"},
        RefusalCase{"{{ '%x' % 1 }}", "line 1: formats with an unsupported conversion"},
        RefusalCase{"{{ '%s %s' % x }}", "line 1: formats too few values"},
        RefusalCase{"{{ 'a' % x }}", "line 1: formats too many values"},
        RefusalCase{"{{ '%d' % x }}", "line 1: formats a value that is not an integer with '%d'"},
        RefusalCase{"{{ '{:>3}'.format(x) }}", "line 1: 'format' with this field is not supported"},
        RefusalCase{"{{ y | tojson }}", "line 1: 'tojson' of an undefined value"},
        RefusalCase{"{{ '\u01f0' | upper }}",
                    "line 1: 'upper' of a letter with several capitals is not supported"},
        RefusalCase{"{{ x", "line 1: a tag is not closed"},
        RefusalCase{"{{ 'x }}", "line 1: a string is not closed"},
        RefusalCase{"{# x", "line 1: a comment is not closed"},
        RefusalCase{"{{ x ) }}", "line 1: has an unmatched ')'"},
        RefusalCase{"{{ x ! }}", "line 1: has the character '!', which is not part of Jinja"},
        RefusalCase{"{{ '\\N' }}", "line 1: has an unsupported escape"},
        RefusalCase{"{{ '\\uD800' }}", "line 1: has a surrogate in an escape"},
        RefusalCase{"{{ '\\U00110000' }}", "line 1: has an escape beyond Unicode"},
        RefusalCase{"{% if x %}\n", "line 1: a statement has no 'endif'"},
        RefusalCase{"{% endif %}", "line 1: 'endif' without an opening statement"},
        RefusalCase{"{% for a in x %}{{ loop(x) }}{% endfor %}",
                    "line 1: calls a loop that is not recursive"},
        RefusalCase{"{% for a in 3 %}{% endfor %}",
                    "line 1: loops over a value that is not a list"},
        RefusalCase{"{% for a, b in [[1]] %}{% endfor %}", "line 1: assigns 1 items to 2 names"},
        RefusalCase{"{% for (a, (b, c)) in x %}{% endfor %}",
                    "line 1: nested targets are not supported"},
        RefusalCase{"{% set a, b, c = list %}", "line 1: assigns 2 items to 3 names"},
        RefusalCase{"{% set x.y = 1 %}", "line 1: 'x' is not a namespace"},
        RefusalCase{"{{ x x }}", "line 1: unexpected 'x'"},
        RefusalCase{"{{ }}", "line 1: expected a value, found the end"},
        RefusalCase{"{{ x[] }}", "line 1: expected an index in the brackets"},
        RefusalCase{"{{ range(1000000) }}", "line 1: 'range' is too long"},
        RefusalCase{"{{ range(1, 2, 0) }}", "line 1: 'range' has a step of 0"},
        RefusalCase{"{{ x | tojson(default=1) }}",
                    "line 1: 'tojson' with 'default' is not supported"},
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

TEST(ChatTemplateTest, GenerationBlocksAreSpansOfTheText) {
  const ChatTemplate chat(
      "{% for m in messages %}[{% if m.role == 'a' %}{% generation %}{{ m.content }}!{% "
      "endgeneration %}{% else %}{{ m.content }}{% endif %}]{% endfor %}");
  EXPECT_TRUE(chat.marks_generation());
  const RenderedChat written =
      chat.render_spans(Json::parse(R"({"messages": [{"role": "u", "content": "\u00e4"},
                                   {"role": "a", "content": "bc"},
                                   {"role": "a", "content": ""}]})"));
  EXPECT_EQ(written.text, "[\u00e4][bc!][!]");
  ASSERT_EQ(written.generations.size(), 2U);
  EXPECT_EQ(written.generations[0].begin, 5U);
  EXPECT_EQ(written.generations[0].end, 8U);
  EXPECT_EQ(written.generations[1].begin, 10U);
  EXPECT_EQ(written.generations[1].end, 11U);
  EXPECT_EQ(written.lost_generation, 0);

  const ChatTemplate inside(
      "\n{% macro m() %}{% generation %}a{% endgeneration %}{% endmacro %}{{ m() }}");
  EXPECT_EQ(inside.render_spans(Json::object()).lost_generation, 2);
  EXPECT_FALSE(ChatTemplate("{{ generation }}").marks_generation());
}

TEST(ChatTemplateTest, WritesTheDateThatIsGiven) {
  const std::string source =
      "{{ strftime_now('%d %b %Y, %A %H:%M %-d%%') if strftime_now is defined else 'none' }}";
  EXPECT_TRUE(ChatTemplate(source).reads_date());
  EXPECT_FALSE(ChatTemplate("{{ x }}").reads_date());
  EXPECT_EQ(rendered(source), "none");
  const auto dated = [&](const std::string& date) {
    return ChatTemplate(source, ChatDate(date)).render(Json::object());
  };
  EXPECT_EQ(dated("2024-02-29"), "29 Feb 2024, Thursday 00:00 29%");
  EXPECT_EQ(dated("2026-11-06 17:30"), "06 Nov 2026, Friday 17:30 6%");
  for (const char* bad : {"", "2026-11-6", "2026-13-01", "2025-02-29", "2026-11-06 24:00",
                          "2026-11-06T17:30", "today"}) {
    try {
      ChatDate{bad};
      ADD_FAILURE() << bad;
    } catch (const FormatError& error) {
      EXPECT_EQ(error.what(), "'" + std::string(bad) +
                                  "' is not a date such as '2026-11-26' or '2026-11-26 17:30'");
    }
  }
  try {
    ChatTemplate("{{ strftime_now('%Q') }}", ChatDate("2024-02-29")).render(Json::object());
    ADD_FAILURE();
  } catch (const FormatError& error) {
    EXPECT_STREQ(error.what(), "line 1: strftime_now with '%Q' is not supported");
  }
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
      R"({"chat_template": [{"name": "rag", "template": "a"}, {"name": "default", "template": "b"}]})");
  EXPECT_EQ(find_chat_template(folder.path()), "b");
  folder.write("tokenizer_config.json", R"({"chat_template": {"default": "c", "rag": "d"}})");
  EXPECT_EQ(find_chat_template(folder.path()), "c");
  folder.write("chat_template.jinja", "own");
  EXPECT_EQ(find_chat_template(folder.path()), "own");
}

/// What the folder's template renders without and with tools.
std::pair<std::string, std::string> rendered(const TempFolder& folder) {
  const ChatTemplate found(*find_chat_template(folder.path()));
  return {found.render({{"tools", nullptr}}), found.render({{"tools", {1}}})};
}

TEST(ChatTemplateTest, ConversationsWithToolsTakeTheTemplateForThem) {
  const TempFolder folder;
  folder.write("tokenizer_config.json", R"({"chat_template": [
    {"name": "tool_use", "template": "\n  tools {{ tools[0] }}\n  "},
    {"name": "default", "template": "\n  {% if true %}\nplain\n  {% endif %}\n"}]})");
  const ChatTemplate usual("\n  {% if true %}\nplain\n  {% endif %}\n");
  EXPECT_EQ(rendered(folder),
            (std::pair{usual.render({{"tools", nullptr}}), std::string("\n  tools 1\n  ")}));
  EXPECT_EQ(
      ChatTemplate(*find_chat_template(folder.path())).render(nlohmann::ordered_json::object()),
      usual.render(nlohmann::ordered_json::object()));
  folder.write("additional_chat_templates/tool_use.jinja", "more\n");
  EXPECT_THROW(find_chat_template(folder.path()), DataError);
  folder.write("chat_template.jinja", "own\n");
  EXPECT_EQ(rendered(folder), (std::pair<std::string, std::string>("own", "more")));
}

TEST(ChatTemplateTest, RefusesTemplatesOfSeveralKinds) {
  const auto refusal_of_folder = [](const TempFolder& folder) {
    try {
      find_chat_template(folder.path());
    } catch (const DataError& error) {
      return error.what() + std::string("\n") + error.hint();
    }
    return std::string();
  };
  const TempFolder folder;
  folder.write("additional_chat_templates/tool_use.jinja", "more");
  EXPECT_EQ(refusal_of_folder(folder),
            "'" + folder.path() +
                "' has templates in 'additional_chat_templates', but none is named 'default'\n"
                "write one to 'chat_template.jinja'");
  folder.write("chat_template.jinja", "{% generation %}x{% endgeneration %}");
  EXPECT_EQ(refusal_of_folder(folder),
            "'" + folder.path() +
                "': only one of its chat templates 'default' and 'tool_use' has generation blocks\n"
                "name a file in 'chat_template'");
}

}  // namespace
}  // namespace accel::chat_template_test
