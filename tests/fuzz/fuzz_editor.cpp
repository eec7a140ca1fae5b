// Any bytes taken for an editor's messages are answered or refused, and any text can be asked about
// at any place.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/error.h"
#include "runner/editor/document.h"
#include "runner/editor/language_server.h"
#include "tests/unit/core/test_components.h"

namespace {

void check(const std::string& message) {
  if (!nlohmann::json::accept(message)) std::abort();
}

/// As the executable reads standard input.
void serve(const std::string& bytes, accel::LanguageServer& server) {
  size_t at = 0;
  accel::FrameReader input([&](char* to, size_t size) {
    const size_t count = std::min(size, bytes.size() - at);
    std::copy_n(bytes.data() + at, count, to);
    at += count;
    return count;
  });
  while (const auto frame = input.next()) {
    for (const std::string& answer : server.receive(frame->body)) check(answer);
    for (const std::string& notice : server.publish()) check(notice);
  }
}

}  // namespace

/// The first byte: a stream of messages (0), or a text and where in it the cursor is.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 3, size - 3);
  static const accel::Registry registry = accel::test_registry();
  const accel::RecipeHelp help(accel::TestRecipe::schema().info(), registry);
  if (data[0] == 0) {
    accel::LanguageServer server({help, "/nowhere",
                                  [](const auto&, const auto&) {
                                    return std::vector<accel::Diagnostic>{{{}, "x", "y"}};
                                  },
                                  [](const auto&, const auto&) { return accel::Node(); }});
    server.receive(R"({"id": 1, "method": "initialize"})");
    try {
      serve(text, server);
    } catch (const accel::Error&) {
    }
    return 0;
  }
  const std::string path = data[0] % 2 ? "r.yaml" : "r.toml";
  const size_t offset = std::min<size_t>(data[1] + 256u * data[2], text.size());
  if (const auto cursor = accel::find_cursor(path, text, offset)) {
    help.keys(cursor->tree, cursor->path);
    help.values(cursor->tree, cursor->path);
  }
  if (const auto word = accel::find_word(path, text, offset)) help.explain(word->tree, word->path);
  return 0;
}
