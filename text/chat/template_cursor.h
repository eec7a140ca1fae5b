// Cursor over a template's tokens, shared by the parsers.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/text.h"
#include "text/chat/template_tree.h"

namespace accel {

/// want_ members throw FormatError for another next token; skip members take a matching one and
/// return whether they did.
class TemplateCursor {
  using TokenKind = TemplateTokenKind;

 public:
  static constexpr int kMaxDepth = 60;

  explicit TemplateCursor(std::vector<TemplateToken> tokens) : tokens_(std::move(tokens)) {}

  /// Limits the nesting depth of statements and expressions.
  class Deeper {
   public:
    explicit Deeper(TemplateCursor& cursor) : cursor_(cursor) {
      if (++cursor_.depth_ > kMaxDepth) cursor_.refuse("is nested too deeply");
    }
    ~Deeper() { --cursor_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    TemplateCursor& cursor_;
  };

  /// The token `ahead` positions after the next one; the last one repeats.
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
    if (!skip_operator(text)) refuse(accel::text("expected '{}', found {}", text, found()));
  }
  void want_word(const std::string& text) {
    if (!skip_word(text)) refuse(accel::text("expected '{}', found {}", text, found()));
  }
  std::string want_name() {
    if (peek().kind != TokenKind::kName) refuse(accel::text("expected a name, found {}", found()));
    return take().text;
  }
  void want_close() {
    if (peek().kind != TokenKind::kClose) refuse(accel::text("unexpected {}", found()));
    ++at_;
  }
  /// The next token, for messages.
  std::string found() const {
    switch (peek().kind) {
      case TokenKind::kClose:
      case TokenKind::kEnd:
        return "the end";
      case TokenKind::kString:
        return "a string";
      default:
        return "'" + peek().text + "'";
    }
  }
  /// The first word of the next statement.
  std::string next_word() const {
    return peek().kind == TokenKind::kStatement ? peek(1).text : std::string();
  }

 private:
  std::vector<TemplateToken> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

/// Parses an expression up to the first token that is not part of it.
TemplateExpression parse_expression(TemplateCursor& cursor);
/// The same, or several separated by commas, which are a list.
TemplateExpression parse_tuple(TemplateCursor& cursor);
/// The same without a conditional, whose 'if' would be the loop's.
TemplateExpression parse_iterable(TemplateCursor& cursor);
/// Parses "name(arguments) | name ..." to filters of the variable kBlockOutput.
TemplateExpression parse_block_filters(TemplateCursor& cursor);

}  // namespace accel
