// Language server for recipes: message framing, diagnostics, completion, hover, definitions and
// quick fixes.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/editor/document.h"
#include "runner/editor/quick_fixes.h"
#include "runner/editor/recipe_help.h"

namespace accel {

/// One message.
struct MessageFrame {
  std::string body;
  bool too_large = false;  ///< it was skipped; `body` is empty
};

constexpr size_t kMaxMessageBytes = 8 * 1024 * 1024;

/// Reads messages from a stream, buffering at most one.
class FrameReader {
 public:
  /// Reads up to `size` bytes and returns their number; 0 at the end.
  using Read = std::function<size_t(char* to, size_t size)>;

  explicit FrameReader(Read read) : read_(std::move(read)) {}

  /// The next message; null at the end of the stream. Throws Error for headers without a length,
  /// after which the next message cannot be found.
  std::optional<MessageFrame> next();

  /// Whether bytes of another message are buffered.
  bool has_more() const { return begin_ < buffer_.size(); }

 private:
  bool fill_buffer();
  /// A line without its end; null at the end of the stream.
  std::optional<std::string> line();
  std::optional<size_t> headers();

  Read read_;
  std::string buffer_;
  size_t begin_ = 0;  ///< of the unread bytes
};

/// The message with its header.
std::string framed(std::string_view body);

/// Services that the server needs. `texts` are the open documents by canonical path.
struct EditorHost {
  using Texts = std::map<std::string, std::string>;

  RecipeHelp help;
  std::string builtin_folder;
  /// All diagnostics of the recipe at a path.
  std::function<std::vector<Diagnostic>(const std::string& path, const Texts& texts)> check;
  /// The recipe at a path merged with its includes; null when one cannot be read.
  std::function<Node(const std::string& path, const Texts& texts)> compose;
};

/// Handles the bodies of messages; invalid ones get an error response and never throw.
class LanguageServer {
 public:
  explicit LanguageServer(EditorHost host) : host_(std::move(host)) {}

  /// The responses to one message; none to a notification.
  std::vector<std::string> receive(std::string_view message);
  /// Diagnostics of the recipes changed since the last call, and of those with an `include`.
  std::vector<std::string> publish();
  /// The response to a message above the size limit.
  static std::string too_large();

  bool ended() const { return ended_; }
  /// Whether `shutdown` preceded `exit`.
  bool ended_well() const { return ended_ && shut_down_; }

 private:
  nlohmann::json answer(const std::string& method, const nlohmann::json& parameters);
  void notice(const std::string& method, const nlohmann::json& parameters);
  void set_text(const nlohmann::json& document, const std::string& text);
  void close(const std::string& uri);

  nlohmann::json complete(const EditorDocument& document, const EditorPosition& position) const;
  nlohmann::json hover(const EditorDocument& document, const EditorPosition& position) const;
  nlohmann::json definition(const EditorDocument& document, const EditorPosition& position) const;
  nlohmann::json quick_fixes(const EditorDocument& document, const nlohmann::json& range) const;

  size_t open_bytes() const;
  EditorHost::Texts texts() const;
  Node composed(const EditorDocument& document, const std::string& text, const Node& own) const;
  nlohmann::json problem(const EditorDocument& document, const Diagnostic& found);

  EditorHost host_;
  std::map<std::string, EditorDocument> documents_;     ///< by URI
  std::map<std::string, std::vector<QuickFix>> fixes_;  ///< by URI, of the published diagnostics
  std::vector<std::string> outbox_;                     ///< notifications to send
  std::set<std::string> changed_;                       ///< URIs, since the last `publish`
  bool initialized_ = false;
  bool shut_down_ = false;
  bool ended_ = false;
};

}  // namespace accel
