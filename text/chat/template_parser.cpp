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
    const std::string word = cursor_.want_name();
    if (word == "if") return if_statement(std::move(out));
    if (word == "for") return for_statement(std::move(out));
    if (word == "set") return set_statement(std::move(out));
    if (word == "generation") return group(std::move(out));
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

  Statement group(Statement out) {
    cursor_.want_close();
    out.kind = Statement::Kind::kGroup;
    out.body = statements({"endgeneration"});
    end_statement("endgeneration", out.line);
    return out;
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

  Statement for_statement(Statement out) {
    out.kind = Statement::Kind::kFor;
    out.names.push_back(cursor_.want_name());
    if (cursor_.skip_operator(",")) out.names.push_back(cursor_.want_name());
    cursor_.want_word("in");
    out.parts.push_back(parse_iterable(cursor_));
    if (cursor_.skip_word("if")) out.parts.push_back(parse_expression(cursor_));
    if (cursor_.is_word("recursive")) cursor_.refuse("recursive loops are not supported");
    cursor_.want_close();
    out.body = statements({"else", "endfor"});
    take_else(out);
    end_statement("endfor", out.line);
    return out;
  }

  Statement set_statement(Statement out) {
    out.names.push_back(cursor_.want_name());
    if (cursor_.skip_operator(".")) out.names.push_back(cursor_.want_name());
    if (cursor_.is_operator(",")) cursor_.refuse("setting several names is not supported");
    if (out.names.size() == 1 && cursor_.peek().kind == TokenKind::kClose) {
      cursor_.take();
      out.kind = Statement::Kind::kSetBlock;
      out.body = statements({"endset"});
      end_statement("endset", out.line);
      return out;
    }
    cursor_.want_operator("=");
    out.kind = Statement::Kind::kSet;
    out.parts.push_back(parse_expression(cursor_));
    cursor_.want_close();
    return out;
  }

  TemplateCursor cursor_;
};

}  // namespace

std::vector<TemplateStatement> parse_template(std::string_view source) {
  return StatementParser(template_tokens(source)).run();
}

}  // namespace accel
