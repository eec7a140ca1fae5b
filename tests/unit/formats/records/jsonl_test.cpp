// JSON Lines, line by line.
#include "formats/records/jsonl.h"

#include <gtest/gtest.h>

#include "tests/unit/formats/test_bytes.h"

namespace accel::jsonl_test {
namespace {

using Lines = std::vector<std::string>;

/// The fields of every line as "location a|b".
Lines lines_of(const std::string& text, const std::vector<std::string>& wanted) {
  Lines all;
  JsonlReader reader(bytes_of(text), wanted, "t.jsonl");
  for (std::vector<std::string_view> fields; reader.next(fields);) {
    std::string line = reader.location() + " ";
    for (size_t i = 0; i < fields.size(); ++i) line += (i ? "|" : "") + std::string(fields[i]);
    all.push_back(line);
  }
  return all;
}

struct GoodCase {
  const char* text;
  std::vector<std::string> wanted;
  Lines lines;
};

const GoodCase kGood[] = {
    {"{\"a\": \"x\", \"b\": 1}\n{\"b\": -2, \"a\": \"\"}",
     {"a", "b"},
     {"t.jsonl:1 x|1", "t.jsonl:2 |-2"}},
    {"\xef\xbb\xbf{\"a\":true}\r\n\n  \n{\"a\":0.5}\n", {"a"}, {"t.jsonl:1 true", "t.jsonl:4 0.5"}},
    {"{\"a\": \"tab\\t\\u00e9\\\\\", \"other\": [1, {\"a\": 2}]}", {"a"}, {"t.jsonl:1 tab\té\\"}},
    {"{\"a\": \"x\"}", {"a", "a"}, {"t.jsonl:1 x|x"}},
    {"", {"a"}, {}},
    {" \n", {"a"}, {}},
    // An array of objects.
    {"[{\"a\": 1}, {\"a\": 2}]", {"a"}, {"t.jsonl:1 1", "t.jsonl:1 2"}},
    {"\xef\xbb\xbf\n[\n {\"a\": \"],}\\\"\",\n  \"b\": [{}, [1, 2]]}\n,\n {\"a\": \"y\"},\n]\n",
     {"a"},
     {"t.jsonl:3 ],}\"", "t.jsonl:6 y"}},
    {" [ ] ", {"a"}, {}},
};

TEST(JsonlTest, TheWantedFieldsAreReadAsText) {
  for (const GoodCase& test : kGood) {
    EXPECT_EQ(lines_of(test.text, test.wanted), test.lines) << test.text;
  }
}

struct BadCase {
  std::string text;
  std::string complaint;
};

TEST(JsonlTest, ErrorsNameTheLine) {
  const std::string hint = "\neach line must be one object: {\"text\": \"...\"}";
  const std::string kinds = ", a string, number or boolean wanted\nremove such lines from the file";
  const BadCase cases[] = {
      {"{\"a\": 1}\n{\"b\": 1, \"c\": 2}\n",
       "t.jsonl:2 has no field 'a'\nit has the fields 'b', 'c'"},
      {"{}", "t.jsonl:1 has no field 'a'\nit has no fields"},
      {"{\"a\": null}", "t.jsonl:1: field 'a' has the type 'null'" + kinds},
      {"{\"a\": [\"x\"]}", "t.jsonl:1: field 'a' has the type 'array'" + kinds},
      {"\n{\"a\": 1", "t.jsonl:2 is not JSON" + hint},
      {"{\"a\": 1} {}", "t.jsonl:1 is not JSON" + hint},
      {"{\"a\": \"\xff\"}", "t.jsonl:1 is not JSON" + hint},
      {"[1]", "t.jsonl:1 is not a JSON object" + hint},
      {"{\"a\": 1, \"a\": 2}", "t.jsonl:1 has \"a\" twice" + hint},
      {std::string("{\"a\": 1\0}", 9), "t.jsonl:1 has a NUL byte" + hint},
      {"{\"a\": " + std::string(70, '[') + std::string(70, ']') + "}",
       "t.jsonl:1 is nested too deeply" + hint},
      {"[{\"a\": 1}, {\"a\": 2]", "t.jsonl:1 is not JSON" + hint},
      {"[{\"a\": 1} {\"a\": 2}]", "t.jsonl:1 is not JSON" + hint},
      {"[{\"a\": 1},, {\"a\": 2}]", "t.jsonl:1 is not JSON" + hint},
      {"[{\"a\": 1}]\nmore", "t.jsonl:2 is not JSON" + hint},
      {"[, {\"a\": 1}]", "t.jsonl:1 is not JSON" + hint},
      {std::string((16 << 20) + 1, 'x'), "t.jsonl:1: a line of more than 16 MiB"},
  };
  for (const BadCase& test : cases) {
    EXPECT_EQ(complaint([&] { lines_of(test.text, {"a"}); }), test.complaint);
  }
}

TEST(JsonlTest, WhatPythonWritesBeyondJsonIsRead) {
  EXPECT_EQ(lines_of("{\"a\": \"x\", \"n\": NaN, \"m\": [-Infinity, Infinity]}\n", {"a"}),
            Lines{"t.jsonl:1 x"});
  EXPECT_EQ(lines_of("{\"a\": \"NaN \\ud83d\\ude00 \\ud83d. \\ude00\\\\ud83d\"}\n", {"a"}),
            Lines{"t.jsonl:1 NaN \xf0\x9f\x98\x80 \xef\xbf\xbd. \xef\xbf\xbd\\ud83d"});
  EXPECT_EQ(complaint([] { lines_of("{\"a\": NaN}\n", {"a"}); }),
            "t.jsonl:1: field 'a' has the type 'null', a string, number or boolean wanted\n"
            "remove such lines from the file");
  EXPECT_EQ(complaint([] { lines_of("{\"a\": \"x\", \"n\": nan}\n", {"a"}); }),
            "t.jsonl:1 is not JSON\neach line must be one object: {\"text\": \"...\"}");
}

TEST(JsonlTest, FieldsThatMayBeListsAreJson) {
  const std::string text = "{\"a\": [\"x\", 1], \"b\": 2}";
  JsonlReader reader(bytes_of(text), {"a", "b"}, "t.jsonl", {"a", "b"});
  std::vector<std::string_view> fields;
  ASSERT_TRUE(reader.next(fields));
  EXPECT_EQ(fields[0], "[\"x\",1]");
  EXPECT_EQ(fields[1], "2");
}

}  // namespace
}  // namespace accel::jsonl_test
