// How messages follow one another between an editor and a language server: headers, an empty line,
// then as many bytes as `Content-Length` says.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace accel {

/// One message as it came.
struct MessageFrame {
  std::string body;
  bool too_large = false;  ///< it was passed over; `body` is empty
};

constexpr size_t kMaxMessageBytes = 8 * 1024 * 1024;

/// Takes messages out of a stream, and never holds more of it than one of them.
class FrameReader {
 public:
  /// Puts up to `size` bytes where it is told and returns how many; 0 at the end.
  using Read = std::function<size_t(char* to, size_t size)>;

  explicit FrameReader(Read read) : read_(std::move(read)) {}

  /// The next message; null at the end of the stream. Throws Error for headers that tell no length:
  /// where the next message starts cannot be known then.
  std::optional<MessageFrame> next();

  /// Whether bytes of another message are here already.
  bool has_more() const { return begin_ < buffer_.size(); }

 private:
  bool fill();
  /// A line without its end; null at the end of the stream.
  std::optional<std::string> line();
  std::optional<size_t> headers();

  Read read_;
  std::string buffer_;
  size_t begin_ = 0;  ///< of what was not taken yet
};

/// The message with its header.
std::string framed(std::string_view body);

}  // namespace accel
