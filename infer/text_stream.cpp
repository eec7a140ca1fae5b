#include "infer/text_stream.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace accel {
namespace {

constexpr size_t kContext = 8;  // tokens that are decoded with new ones
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

TextStream::TextStream(const TextCodec& codec, const std::vector<int64_t>& context)
    : codec_(codec),
      tokens_(context.end() - static_cast<ptrdiff_t>(std::min(context.size(), kContext)),
              context.end()),
      written_(tokens_.size()) {}

std::string TextStream::text_of(size_t first) const {
  const std::string before = codec_.decode(std::span(tokens_).subspan(first_, written_ - first_));
  const std::string all = codec_.decode(std::span(tokens_).subspan(first_));
  return all.starts_with(before) ? all.substr(before.size())
                                 : codec_.decode(std::span(tokens_).subspan(first));
}

std::string TextStream::add(int64_t token) {
  tokens_.push_back(token);
  std::string text = text_of(written_);
  if (text.empty() || text.ends_with(kReplacement)) return {};  // a character is incomplete
  first_ = std::max(first_, written_ - std::min(written_, kContext));
  written_ = tokens_.size();
  return text;
}

std::string TextStream::finish() {
  std::string text = text_of(written_);
  written_ = tokens_.size();
  return text;
}

}  // namespace accel
