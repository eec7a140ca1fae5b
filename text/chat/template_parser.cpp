#include <algorithm>
#include <initializer_list>

#include "text/chat/template_cursor.h"

namespace accel {
namespace {

using Statement = TemplateStatement;
using TokenKind = TemplateTokenKind;

class StatementParser {
 public:
  explicit StatementParser(std::vector<TemplateToken> tokens) : cursor_(std::move(tokens)) {}

  std::vector<Statement> run() {
    std::vector<Statement> all = statements({});
    if (cursor_.peek().kind != TokenKind::kEnd) {
      cursor_.refuse(text("'{}' without an opening statement", cursor_.next_word()));
    }
    return all;
  }

 private:
  /// Statements up to one that begins with a word of `ends`, or to the end of the template.
  std::vector<Statement> statements(std::initializer_list<std::string_view> ends) {
    const TemplateCursor::Deeper deeper(cursor_);
    std::vector<Statement> out;
    while (cursor_.peek().kind != TokenKind::kEnd) {
      const std::string word = cursor_.next_word();
      if (std::find(ends.begin(), ends.end(), word) != ends.end()) return out;
      if (word.starts_with("end") || word == "else" || word == "elif") return out;
      out.push_back(statement());
    }
    return out;
  }

  Statement statement() {
    const TemplateToken first = cursor_.take();
    Statement out{.line = first.line};
    if (first.kind == TokenKind::kText) {
      out.text = first.text;
      return out;
    }
    if (first.kind == TokenKind::kPrint) {
      out.kind = Statement::Kind::kPrint;
      out.parts.push_back(parse_expression(cursor_));
      cursor_.want_close();
      return out;
    }
    return named_statement(cursor_.want_name(), std::move(out));
  }

  Statement named_statement(const std::string& word, Statement out) {
    if (word == "if") return if_statement(std::move(out));
    if (word == "for") return for_statement(std::move(out));
    if (word == "set") return set_statement(std::move(out));
    if (word == "macro") return macro(std::move(out));
    if (word == "call") return call_block(std::move(out));
    if (word == "filter") return filter_block(std::move(out));
    if (word == "with") return with_block(std::move(out));
    if (word == "generation") {
      out.kind = Statement::Kind::kGeneration;
      cursor_.want_close();
      return with_body(std::move(out), "endgeneration");
    }
    if (word == "break" || word == "continue") {
      out.kind = word == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue;
      cursor_.want_close();
      return out;
    }
    refuse_template(out.line, text("the statement '{}' is not supported", word));
  }

  void end_statement(const std::string& word, int line) {
    if (cursor_.next_word() != word) refuse_template(line, text("a statement has no '{}'", word));
    cursor_.take();
    cursor_.take();
    cursor_.want_close();
  }

  /// Takes the body and the statement that ends it.
  Statement with_body(Statement out, const char* end) {
    out.body = statements({end});
    end_statement(end, out.line);
    return out;
  }

  /// After "(": parameters, of which the last may have defaults.
  void parameters(Statement& out) {
    for (bool first = true; !cursor_.skip_operator(")"); first = false) {
      if (!first) cursor_.want_operator(",");
      if (cursor_.skip_operator(")")) return;
      out.names.push_back(cursor_.want_name());
      if (cursor_.skip_operator("=")) {
        out.parts.push_back(parse_expression(cursor_));
      } else if (!out.parts.empty()) {
        cursor_.refuse("has a parameter without a default after one with a default");
      }
    }
  }

  Statement macro(Statement out) {
    out.kind = Statement::Kind::kMacro;
    out.names.push_back(cursor_.want_name());
    cursor_.want_operator("(");
    parameters(out);
    cursor_.want_close();
    return with_body(std::move(out), "endmacro");
  }

  Statement call_block(Statement out) {
    out.kind = Statement::Kind::kCallBlock;
    Statement caller;
    caller.names.emplace_back("caller");
    if (cursor_.skip_operator("(")) parameters(caller);
    out.parts.push_back(parse_expression(cursor_));
    if (out.parts[0].kind != TemplateExpression::Kind::kCall) {
      cursor_.refuse("'call' requires a call");
    }
    cursor_.want_close();
    caller.kind = Statement::Kind::kMacro;
    caller.line = out.line;
    caller.body = statements({"endcall"});
    end_statement("endcall", out.line);
    out.body.push_back(std::move(caller));
    return out;
  }

  Statement filter_block(Statement out) {
    out.kind = Statement::Kind::kFilterBlock;
    out.parts.push_back(parse_block_filters(cursor_));
    cursor_.want_close();
    return with_body(std::move(out), "endfilter");
  }

  Statement with_block(Statement out) {
    out.kind = Statement::Kind::kWith;
    while (cursor_.peek().kind != TokenKind::kClose) {
      if (!out.names.empty()) cursor_.want_operator(",");
      out.names.push_back(cursor_.want_name());
      cursor_.want_operator("=");
      out.parts.push_back(parse_expression(cursor_));
    }
    cursor_.want_close();
    return with_body(std::move(out), "endwith");
  }

  /// After 'if' or 'elif'; takes the 'endif'.
  Statement if_statement(Statement out) {
    const TemplateCursor::Deeper deeper(cursor_);
    out.kind = Statement::Kind::kIf;
    out.parts.push_back(parse_expression(cursor_));
    cursor_.want_close();
    out.body = statements({"elif", "else", "endif"});
    if (cursor_.next_word() == "elif") {
      cursor_.take();
      Statement other{.line = cursor_.take().line};
      out.otherwise.push_back(if_statement(std::move(other)));
      return out;
    }
    take_else(out);
    end_statement("endif", out.line);
    return out;
  }

  void take_else(Statement& out) {
    if (cursor_.next_word() != "else") return;
    cursor_.take();
    cursor_.take();
    cursor_.want_close();
    out.otherwise = statements({});
  }

  /// "a" or "a, b", which may be in brackets.
  std::vector<std::string> targets() {
    const bool brackets = cursor_.skip_operator("(");
    std::vector<std::string> names = {cursor_.want_name()};
    while (cursor_.skip_operator(",")) {
      if (cursor_.is_operator("(")) cursor_.refuse("nested targets are not supported");
      names.push_back(cursor_.want_name());
    }
    if (brackets) cursor_.want_operator(")");
    return names;
  }

  Statement for_statement(Statement out) {
    out.kind = Statement::Kind::kFor;
    out.names = targets();
    cursor_.want_word("in");
    out.parts.push_back(parse_iterable(cursor_));
    if (cursor_.skip_word("if")) out.parts.push_back(parse_expression(cursor_));
    if (cursor_.skip_word("recursive")) out.text = "recursive";
    cursor_.want_close();
    out.body = statements({"else", "endfor"});
    take_else(out);
    end_statement("endfor", out.line);
    return out;
  }

  Statement set_statement(Statement out) {
    out.names = targets();
    const bool one = out.names.size() == 1;
    if (one && cursor_.skip_operator(".")) out.names.push_back(cursor_.want_name());
    if (one && (cursor_.peek().kind == TokenKind::kClose || cursor_.is_operator("|"))) {
      out.kind = Statement::Kind::kSetBlock;
      if (cursor_.skip_operator("|")) out.parts.push_back(parse_block_filters(cursor_));
      cursor_.want_close();
      return with_body(std::move(out), "endset");
    }
    cursor_.want_operator("=");
    out.kind = one ? Statement::Kind::kSet : Statement::Kind::kUnpack;
    out.parts.push_back(parse_tuple(cursor_));
    cursor_.want_close();
    return out;
  }

  TemplateCursor cursor_;
};

}  // namespace

std::vector<TemplateStatement> parse_template(std::vector<TemplateToken> tokens) {
  return StatementParser(std::move(tokens)).run();
}

}  // namespace accel
