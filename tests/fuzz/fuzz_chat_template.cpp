// Any bytes taken for a chat template are read or refused; what is read is used, within bounds.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/format_error.h"
#include "core/base/utf8.h"
#include "text/chat/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto kVariables = nlohmann::ordered_json::parse(
      R"({"messages": [{"role": "system", "content": " S "},
                       {"role": "user", "content": "\u00e4\n\ud83d\ude42", "n": [1, 2.5, null]},
                       {"role": "assistant", "content": "no", "tool_calls": [{"name": "f"}]}],
          "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})");
  try {
    const accel::ChatTemplate chat({reinterpret_cast<const char*>(data), size});
    if (!accel::is_utf8(chat.render(kVariables))) __builtin_trap();
  } catch (const accel::FormatError&) {
  }
  return 0;
}
