// Groups of held-out samples of chat and token_classification: by a field of their rows.
#include "data/datasets/text/json_row_keys.h"

#include <gtest/gtest.h>

#include "core/api/dataset.h"
#include "core/api/row_values.h"
#include "core/base/error.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::json_row_keys_test {
namespace {

constexpr auto kTalk =
    R"("messages": [{"role": "user", "content": "good"}, {"role": "assistant", "content": "bad film"}])";

std::vector<uint64_t> keys_of(const Dataset& data, const std::string& field) {
  return dynamic_cast<const RowKeys&>(data).row_keys(field);
}

class JsonRowKeysTest : public testing::Test {
 protected:
  std::unique_ptr<Dataset> chat(const std::string& rows, const std::string& options = "") const {
    const std::string tokenizer = folder_.write("tokenizer.json", kSmallTokenizer);
    const std::string lines = folder_.write(
        "template.jinja", "{% for message in messages %}{{ message['content'] }}{% endfor %}");
    return build<Dataset>("{type: chat, path: " + folder_.write("talks.jsonl", rows) +
                          ", tokenizer: " + tokenizer + ", chat_template: " + lines + options +
                          "}");
  }

  TempFolder folder_;
};

TEST_F(JsonRowKeysTest, ConversationsOfOneUserHaveOneKey) {
  const std::string talk = kTalk;
  const auto data = chat("{\"user\": \"a\", " + talk + "}\n{\"user\": 7, " + talk +
                         "}\n{\"user\": \"a\", " + talk + "}\n");
  const std::vector<uint64_t> keys = keys_of(*data, "user");
  ASSERT_EQ(keys.size(), 3u);
  EXPECT_EQ(keys[0], keys[2]);
  EXPECT_NE(keys[0], keys[1]);
  EXPECT_EQ(
      complaint([&] { keys_of(*data, "usr"); }),
      folder_.path("talks.jsonl") + ":1 has no field 'usr'\nit has the fields 'messages', 'user'");
}

TEST_F(JsonRowKeysTest, SkippedRowsHaveNone) {
  const std::string talk = kTalk;
  const auto data = chat(
      "{\"user\": \"a\", " + talk + "}\n{\n{\"user\": \"b\"}\n{\"user\": \"c\", " + talk + "}\n",
      ", on_bad_sample: skip(2)");
  const std::vector<uint64_t> keys = keys_of(*data, "user");
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys, (std::vector<uint64_t>{
                      json_row_keys(folder_.write("a.jsonl", "{\"user\": \"a\"}\n"), "user")[0],
                      json_row_keys(folder_.write("c.jsonl", "{\"user\": \"c\"}\n"), "user")[0]}));
}

TEST_F(JsonRowKeysTest, PackedConversationsHaveNone) {
  const auto data = chat("{\"user\": \"a\", " + std::string(kTalk) + "}\n", ", pack: true");
  EXPECT_EQ(complaint([&] { keys_of(*data, "user"); }),
            "'group' keeps rows with one 'user' together, but 'pack' puts several conversations "
            "into a sample\nleave out 'pack' or 'group', or name a file of eval data");
}

TEST_F(JsonRowKeysTest, TaggedWordsOfOneDocumentHaveOneKey) {
  const auto data = build<Dataset>(
      "{type: token_classification, path: " +
      folder_.write("ner.jsonl",
                    "{\"doc\": 1, \"tokens\": [\"good\"], \"ner_tags\": [\"O\"]}\n"
                    "{\"doc\": 1, \"tokens\": [\"bad\"], \"ner_tags\": [\"B\"]}\n"
                    "{\"doc\": 2, \"tokens\": [\"film\"], \"ner_tags\": [\"O\"]}\n") +
      ", tokenizer: " + folder_.write("tokenizer.json", kSmallTokenizer) + "}");
  const std::vector<uint64_t> keys = keys_of(*data, "doc");
  ASSERT_EQ(keys.size(), 3u);
  EXPECT_EQ(keys[0], keys[1]);
  EXPECT_NE(keys[0], keys[2]);
}

}  // namespace
}  // namespace accel::json_row_keys_test
