// The place in a template's tokens at which the parsers stand.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "runner/tokenizers/template_tree.h"

namespace accel {

/// Members named want_ throw FormatError when something else comes next; those named skip tell
/// whether it was there.
class TemplateCursor {
  using TokenKind = TemplateTokenKind;

 public:
  static constexpr int kDeepest = 60;

  explicit TemplateCursor(std::vector<TemplateToken> tokens) : tokens_(std::move(tokens)) {}

  /// Counts how deep statements and expressions lie in one another.
  class Deeper {
   public:
    explicit Deeper(TemplateCursor& cursor) : cursor_(cursor) {
      if (++cursor_.depth_ > kDeepest) cursor_.refuse("is nested too deeply");
    }
    ~Deeper() { --cursor_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    TemplateCursor& cursor_;
  };

  /// The token `ahead` of the next one; the last one goes on for ever.
  const TemplateToken& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  TemplateToken take() { return tokens_[std::min(at_++, tokens_.size() - 1)]; }
  /// Undoes the last take().
  void back() { --at_; }
  [[noreturn]] void refuse(const std::string& what) const { refuse_template(peek().line, what); }

  bool is(TokenKind kind, std::string_view text) const {
    return peek().kind == kind && peek().text == text;
  }
  bool is_operator(std::string_view text) const { return is(TokenKind::kOperator, text); }
  bool is_word(std::string_view text) const { return is(TokenKind::kName, text); }
  bool skip(TokenKind kind, std::string_view text) {
    if (!is(kind, text)) return false;
    ++at_;
    return true;
  }
  bool skip_operator(std::string_view text) { return skip(TokenKind::kOperator, text); }
  bool skip_word(std::string_view text) { return skip(TokenKind::kName, text); }
  void want_operator(const std::string& text) {
    if (!skip_operator(text)) refuse("wants a '" + text + "' where " + found() + " is");
  }
  void want_word(const std::string& text) {
    if (!skip_word(text)) refuse("wants '" + text + "' where " + found() + " is");
  }
  std::string want_name() {
    if (peek().kind != TokenKind::kName) refuse("wants a name where " + found() + " is");
    return take().text;
  }
  void want_close() {
    if (peek().kind != TokenKind::kClose) refuse("does not go on with " + found());
    ++at_;
  }
  /// How messages name what comes next.
  std::string found() const {
    switch (peek().kind) {
      case TokenKind::kClose:
      case TokenKind::kEnd:
        return "the end";
      case TokenKind::kString:
        return "a text";
      default:
        return "'" + peek().text + "'";
    }
  }
  /// The first word of the statement that comes next.
  std::string next_word() const {
    return peek().kind == TokenKind::kStatement ? peek(1).text : std::string();
  }

 private:
  std::vector<TemplateToken> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

/// An expression, up to what can be none of it.
TemplateExpression parse_expression(TemplateCursor& cursor);
/// The same without a choice, whose 'if' would be a loop's.
TemplateExpression parse_iterable(TemplateCursor& cursor);

}  // namespace accel
