#include "data/token_stream.h"

#include <algorithm>
#include <string_view>

#include "core/error.h"

namespace accel {
namespace {

constexpr size_t kPart = size_t{1} << 20;

void append(std::vector<int32_t>& all, const std::vector<int32_t>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

/// Where the part that begins at `first` ends.
size_t end_of_part(std::string_view text, size_t first) {
  if (text.size() - first <= kPart) return text.size();
  size_t at = first + kPart;
  while ((at = text.find('\n', at)) != std::string_view::npos) {
    ++at;
    const bool space = at < text.size() && std::string_view(" \t\r\n").find(text[at]) != text.npos;
    if (!space) return at;
  }
  return text.size();
}

}  // namespace

std::vector<int32_t> tokens_of_text(const Tokenizer& tokenizer, std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<int32_t> all;
  for (size_t first = 0; first < text.size();) {
    const size_t end = end_of_part(text, first);
    append(all, tokenizer.encode(text.substr(first, end - first), /*with_special=*/false));
    first = end;
  }
  return all;
}

std::vector<int32_t> tokens_of_documents(const Tokenizer& tokenizer, JsonlReader documents,
                                         BadSamples& bad) {
  const SpecialTokens& special = tokenizer.special();
  const std::optional<int32_t> end = special.eos ? special.eos : special.sep;
  if (!end) {
    throw DataError("the tokenizer has no token for the end of a document",
                    "name one in 'special_tokens_map.json' beside it, as \"eos_token\"");
  }
  std::vector<int32_t> all;
  std::vector<std::string_view> fields;
  while (true) {
    try {
      if (!documents.next(fields)) break;
      append(all, tokenizer.encode(fields[0], /*with_special=*/false));
      all.push_back(*end);
    } catch (const DataError& error) {
      bad.leave_out(error);
    }
  }
  return all;
}

}  // namespace accel
