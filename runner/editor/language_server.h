// The Language Server Protocol for recipes: what is wrong as one types, words that fit, and what
// they mean.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runner/editor/document.h"
#include "runner/editor/recipe_help.h"

namespace accel {

/// What a server must be told of recipes. `texts` are those open in the editor, by canonical path.
struct EditorHost {
  using Texts = std::map<std::string, std::string>;

  RecipeHelp help;
  std::string builtin_folder;
  /// Everything wrong with the recipe at a path.
  std::function<std::vector<Diagnostic>(const std::string& path, const Texts& texts)> check;
  /// The recipe at a path with what it includes; null when that cannot be read.
  std::function<Node(const std::string& path, const Texts& texts)> compose;
};

/// Answers an editor. Takes and gives the bodies of messages; never throws for what they hold.
class LanguageServer {
 public:
  explicit LanguageServer(EditorHost host) : host_(std::move(host)) {}

  /// The answers to one message: none to a notification.
  std::vector<std::string> receive(std::string_view message);
  /// What is wrong with the open recipes, when a text has changed since this was last asked.
  std::vector<std::string> publish();
  /// The answer to a message that was too large to be read.
  static std::string too_large();

  bool ended() const { return ended_; }
  /// Whether the editor took its leave before it ended the server.
  bool ended_well() const { return ended_ && shut_down_; }

 private:
  nlohmann::json answer(const std::string& method, const nlohmann::json& parameters);
  void notice(const std::string& method, const nlohmann::json& parameters);
  void set_text(const nlohmann::json& document, const std::string& text);
  void close(const std::string& uri);

  nlohmann::json complete(const EditorDocument& document, const EditorPosition& position) const;
  nlohmann::json hover(const EditorDocument& document, const EditorPosition& position) const;
  nlohmann::json definition(const EditorDocument& document, const EditorPosition& position) const;

  EditorHost::Texts texts() const;
  Node composed(const EditorDocument& document, const std::string& text, const Node& own) const;
  nlohmann::json problem(const EditorDocument& document, const Diagnostic& found) const;

  EditorHost host_;
  std::map<std::string, EditorDocument> documents_;  ///< by URI
  std::vector<std::string> outbox_;                  ///< notifications to send
  bool changed_ = false;
  bool initialized_ = false;
  bool shut_down_ = false;
  bool ended_ = false;
};

}  // namespace accel
