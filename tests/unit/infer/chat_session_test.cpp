// Chat sessions: the tokens of a conversation, by the template of a tokenizer.
#include "infer/chat_session.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/error.h"

namespace accel::chat_session_test {
namespace {

std::shared_ptr<const Tokenizer> tokenizer() {
  const char* source = std::getenv("ACCEL_SOURCE_DIR");
  return load_tokenizer(std::string(source ? source : ".") + "/recipes/tiny/data/talks");
}

constexpr const char* kTemplate =
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
    "{{ raise_exception('late system') }}{% endif %}{% if m.content == 'bad' %}"
    "{{ raise_exception('bad word') }}{% endif %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";

std::string text_of(const std::vector<int64_t>& tokens) {
  const std::vector<int32_t> ids(tokens.begin(), tokens.end());
  return tokenizer()->decode(ids, false);
}

TEST(ChatSessionTest, RendersTheConversation) {
  ChatSession session(tokenizer(), ChatTemplate(kTemplate));
  EXPECT_EQ(text_of(session.add_user_message("one")), "user: one\nassistant:");
  session.add_assistant_message("two");
  EXPECT_EQ(text_of(session.add_user_message("three")),
            "user: one\nassistant: two\nuser: three\nassistant:");
}

TEST(ChatSessionTest, KeepsTheSystemMessageInANewConversation) {
  ChatSession session(tokenizer(), ChatTemplate(kTemplate));
  session.set_system("short");
  session.add_user_message("one");
  session.reset();
  EXPECT_EQ(text_of(session.add_user_message("two")), "system: short\nuser: two\nassistant:");
  session.set_system("");
  session.reset();
  EXPECT_EQ(text_of(session.add_user_message("two")), "user: two\nassistant:");
}

TEST(ChatSessionTest, ForgetsAMessageThatTheTemplateRejects) {
  ChatSession session(tokenizer(), ChatTemplate(kTemplate));
  try {
    session.add_user_message("bad");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the chat template rejects the conversation: "),
              std::string::npos);
    EXPECT_NE(std::string(error.what()).find("bad word"), std::string::npos);
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
  }
  EXPECT_EQ(text_of(session.add_user_message("good")), "user: good\nassistant:");
}

TEST(ChatSessionTest, FindsTheSpecialTokenAfterAnAnswer) {
  const auto own = tokenizer();
  ASSERT_TRUE(own->special().eos);
  const std::string end = own->token(*own->special().eos);
  const auto end_of = [&](const std::string& after) {
    const std::string source =
        "{% for m in messages %}{{ m.role }}: {{ m.content }}" + after + "{% endfor %}";
    return ChatSession(own, ChatTemplate(source)).end_of_turn();
  };
  EXPECT_EQ(end_of(end + "\n"), *own->special().eos);
  EXPECT_EQ(end_of("\n"), std::nullopt);
  EXPECT_EQ(end_of(""), std::nullopt);
}

}  // namespace
}  // namespace accel::chat_session_test
