#include "runner/editor/message_frames.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "core/error.h"
#include "core/utf8.h"

namespace accel {
namespace {

constexpr size_t kMaxHeaderBytes = 4096;
constexpr size_t kChunk = 64 * 1024;
constexpr size_t kMaxSkipped = size_t{1} << 30;

[[noreturn]] void refuse_frame(const std::string& found) {
  throw Error(ExitCode::kOther, found + " where a message of an editor should start",
              "'accel-run lsp' is started by editors: see docs/editors.md");
}

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

bool FrameReader::fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t before = buffer_.size();
  buffer_.resize(before + kChunk);
  buffer_.resize(before + read_(buffer_.data() + before, kChunk));
  return buffer_.size() > before;
}

std::optional<std::string> FrameReader::line() {
  for (;;) {
    const size_t end = buffer_.find('\n', begin_);
    if (end != std::string::npos && end - begin_ <= kMaxHeaderBytes) {
      std::string text = buffer_.substr(begin_, end - begin_);
      begin_ = end + 1;
      if (text.ends_with('\r')) text.pop_back();
      return text;
    }
    if (buffer_.size() - begin_ > kMaxHeaderBytes) refuse_frame("a line without an end");
    if (!fill()) return std::nullopt;
  }
}

std::optional<size_t> FrameReader::headers() {
  std::optional<size_t> length;
  size_t bytes = 0;
  for (bool first = true;; first = false) {
    const std::optional<std::string> text = line();
    if (!text) return std::nullopt;
    if (text->empty() && !first) break;
    bytes += text->size();
    if (bytes > kMaxHeaderBytes) refuse_frame("too long a header");
    const size_t colon = text->find(':');
    if (colon == std::string::npos) refuse_frame("'" + printable(text->substr(0, 60)) + "'");
    if (lower_case(text->substr(0, colon)) != "content-length") continue;
    const size_t digits = text->find_first_not_of(' ', colon + 1);
    size_t value = 0;
    const char* end = text->data() + text->size();
    const char* begin = digits == std::string::npos ? end : text->data() + digits;
    const auto parsed = std::from_chars(begin, end, value);
    if (begin == end || parsed.ec != std::errc() || parsed.ptr != end || value > kMaxSkipped) {
      refuse_frame("'" + printable(text->substr(0, 60)) + "'");
    }
    length = value;
  }
  if (!length) refuse_frame("a header without 'Content-Length'");
  return length;
}

std::optional<MessageFrame> FrameReader::next() {
  const std::optional<size_t> length = headers();
  if (!length) return std::nullopt;
  MessageFrame frame;
  frame.too_large = *length > kMaxMessageBytes;
  for (size_t left = *length; left > 0;) {
    if (!has_more() && !fill()) return std::nullopt;
    const size_t part = std::min(left, buffer_.size() - begin_);
    if (!frame.too_large) frame.body.append(buffer_, begin_, part);
    begin_ += part;
    left -= part;
  }
  return frame;
}

std::string framed(std::string_view body) {
  std::string out = "Content-Length: ";
  out.append(std::to_string(body.size())).append("\r\n\r\n").append(body);
  return out;
}

}  // namespace accel
