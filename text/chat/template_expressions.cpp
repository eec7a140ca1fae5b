#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>

#include "text/chat/template_cursor.h"

namespace accel {
namespace {

using Kind = TemplateExpression::Kind;
using TokenKind = TemplateTokenKind;

/// Nesting depth of expressions, chains included.
constexpr int kMaxTreeDepth = 200;

class ExpressionParser {
 public:
  explicit ExpressionParser(TemplateCursor& cursor) : cursor_(cursor) {}

  TemplateExpression make(Kind kind, std::vector<TemplateExpression> parts,
                          std::string name = {}) const {
    TemplateExpression out;
    out.kind = kind;
    out.line = cursor_.peek().line;
    out.name = std::move(name);
    for (const TemplateExpression& part : parts) out.depth = std::max(out.depth, part.depth + 1);
    if (out.depth > kMaxTreeDepth) cursor_.refuse("is nested too deeply");
    out.parts = std::move(parts);
    return out;
  }

  TemplateExpression literal(TemplateValue value) const {
    TemplateExpression out = make(Kind::kLiteral, {});
    out.value = std::move(value);
    return out;
  }

  TemplateExpression expression() {
    const TemplateCursor::Deeper deeper(cursor_);
    TemplateExpression value = or_expression();
    while (cursor_.skip_word("if")) {
      std::vector<TemplateExpression> parts = {std::move(value), or_expression()};
      if (cursor_.skip_word("else")) parts.push_back(expression());
      value = make(Kind::kChoice, std::move(parts));
    }
    return value;
  }

  TemplateExpression or_expression() {
    TemplateExpression left = and_expression();
    while (cursor_.skip_word("or")) left = make(Kind::kOr, {std::move(left), and_expression()});
    return left;
  }

  TemplateExpression and_expression() {
    TemplateExpression left = not_expression();
    while (cursor_.skip_word("and")) left = make(Kind::kAnd, {std::move(left), not_expression()});
    return left;
  }

  TemplateExpression not_expression() {
    const TemplateCursor::Deeper deeper(cursor_);
    if (cursor_.skip_word("not")) return make(Kind::kNot, {not_expression()});
    return comparison();
  }

  /// Takes the next comparison operator; "" when there is none.
  std::string comparison_operator() {
    for (const char* each : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (cursor_.skip_operator(each)) return each;
    }
    if (cursor_.skip_word("in")) return "in";
    if (cursor_.is_word("not") && cursor_.peek(1).kind == TokenKind::kName &&
        cursor_.peek(1).text == "in") {
      cursor_.take();
      cursor_.take();
      return "not in";
    }
    return "";
  }

  TemplateExpression comparison() {
    TemplateExpression left = operation(0);
    std::string name = comparison_operator();
    if (name.empty()) return left;
    TemplateExpression right = operation(0);
    TemplateExpression all = make(Kind::kBinary, {std::move(left), right}, name);
    // a < b < c is a < b and b < c.
    for (name = comparison_operator(); !name.empty(); name = comparison_operator()) {
      TemplateExpression next = operation(0);
      TemplateExpression pair = make(Kind::kBinary, {std::move(right), next}, name);
      all = make(Kind::kAnd, {std::move(all), std::move(pair)});
      right = std::move(next);
    }
    return all;
  }

  /// Sums, concatenations and products, in order of precedence.
  TemplateExpression operation(size_t level) {
    static const std::vector<std::vector<const char*>> kLevels = {
        {"+", "-"}, {"~"}, {"*", "//", "/", "%"}, {"**"}};
    if (level == kLevels.size()) return unary();
    TemplateExpression left = operation(level + 1);
    while (true) {
      const auto& names = kLevels[level];
      const auto found = std::find_if(names.begin(), names.end(), [&](const char* name) {
        return cursor_.skip_operator(name);
      });
      if (found == names.end()) return left;
      left = make(Kind::kBinary, {std::move(left), operation(level + 1)}, *found);
    }
  }

  TemplateExpression unary() {
    const TemplateCursor::Deeper deeper(cursor_);
    return filtered(signed_value());
  }

  /// A sign binds tighter than a filter: -1 | abs is 1.
  TemplateExpression signed_value() {
    const TemplateCursor::Deeper deeper(cursor_);
    if (cursor_.skip_operator("-")) return make(Kind::kNegate, {signed_value()});
    if (cursor_.skip_operator("+")) return signed_value();
    return postfix(primary());
  }

  TemplateExpression primary() {
    const TemplateToken token = cursor_.take();
    switch (token.kind) {
      case TokenKind::kString:
        return text_literal(token.text);
      case TokenKind::kInteger:
        return literal(integer(token.text));
      case TokenKind::kFloat:
        return literal(number(token.text));
      case TokenKind::kName:
        return named(token.text);
      default:
        break;
    }
    cursor_.back();
    if (cursor_.skip_operator("(")) {
      if (cursor_.skip_operator(")")) return make(Kind::kList, {});
      TemplateExpression inner = tuple(")");
      cursor_.want_operator(")");
      return inner;
    }
    if (cursor_.skip_operator("[")) return make(Kind::kList, items("]"));
    if (cursor_.skip_operator("{")) return make(Kind::kDict, entries());
    cursor_.refuse(text("expected a value, found {}", cursor_.found()));
  }

  /// An expression, or a list of those that commas separate.
  TemplateExpression tuple(const char* end) {
    TemplateExpression first = expression();
    if (!cursor_.is_operator(",")) return first;
    std::vector<TemplateExpression> parts = {std::move(first)};
    while (cursor_.skip_operator(",")) {
      if (cursor_.is_operator(end) || cursor_.peek().kind == TokenKind::kClose) break;
      parts.push_back(expression());
    }
    return make(Kind::kList, std::move(parts));
  }

  /// Adjacent strings are concatenated.
  TemplateExpression text_literal(std::string text) {
    while (cursor_.peek().kind == TokenKind::kString) text += cursor_.take().text;
    return literal(std::move(text));
  }

  int64_t integer(const std::string& digits) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc()) cursor_.refuse("has a number that is too large");
    return value;
  }

  double number(const std::string& digits) const {
    double value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc()) cursor_.refuse("has a number that is too large");
    return value;
  }

  TemplateExpression named(const std::string& name) {
    if (name == "true" || name == "True") return literal(true);
    if (name == "false" || name == "False") return literal(false);
    if (name == "none" || name == "None") return literal(nullptr);
    if (name == "and" || name == "or" || name == "not" || name == "if" || name == "else" ||
        name == "in" || name == "is") {
      cursor_.refuse(text("expected a value, found '{}'", name));
    }
    return make(Kind::kName, {}, name);
  }

  std::vector<TemplateExpression> items(const std::string& end) {
    std::vector<TemplateExpression> out;
    while (!cursor_.skip_operator(end)) {
      if (!out.empty()) {
        cursor_.want_operator(",");
        if (cursor_.skip_operator(end)) break;
      }
      out.push_back(expression());
    }
    return out;
  }

  std::vector<TemplateExpression> entries() {
    std::vector<TemplateExpression> out;
    while (!cursor_.skip_operator("}")) {
      if (!out.empty()) {
        cursor_.want_operator(",");
        if (cursor_.skip_operator("}")) break;
      }
      out.push_back(expression());
      cursor_.want_operator(":");
      out.push_back(expression());
    }
    return out;
  }

  /// After "(": adds the arguments to `to`.
  void arguments(TemplateExpression& to) {
    bool first = true;
    while (!cursor_.skip_operator(")")) {
      if (!first) cursor_.want_operator(",");
      if (cursor_.skip_operator(")")) break;
      first = false;
      const bool keyword = cursor_.peek().kind == TokenKind::kName &&
                           cursor_.peek(1).kind == TokenKind::kOperator &&
                           cursor_.peek(1).text == "=";
      if (keyword) {
        to.keywords.push_back(cursor_.take().text);
        cursor_.take();
      } else if (!to.keywords.empty()) {
        cursor_.refuse("has a positional argument after a keyword argument");
      }
      to.parts.push_back(expression());
      to.depth = std::max(to.depth, to.parts.back().depth + 1);
      if (to.depth > kMaxTreeDepth) cursor_.refuse("is nested too deeply");
    }
  }

  TemplateExpression postfix(TemplateExpression value) {
    while (true) {
      if (cursor_.skip_operator(".")) {
        if (cursor_.peek().kind == TokenKind::kInteger) {
          value = make(Kind::kIndex, {std::move(value), literal(integer(cursor_.take().text))});
          continue;
        }
        value = make(Kind::kAttribute, {std::move(value)}, cursor_.want_name());
      } else if (cursor_.skip_operator("[")) {
        value = subscript(std::move(value));
      } else if (cursor_.skip_operator("(")) {
        value = make(Kind::kCall, {std::move(value)});
        arguments(value);
      } else {
        return value;
      }
    }
  }

  TemplateExpression subscript(TemplateExpression value) {
    std::vector<TemplateExpression> parts = {std::move(value)};
    bool slice = false;
    for (bool more = true; more && parts.size() < 4;) {
      const bool none = cursor_.is_operator(":") || cursor_.is_operator("]");
      parts.push_back(none ? literal(nullptr) : expression());
      more = cursor_.skip_operator(":");
      slice = slice || more;
    }
    cursor_.want_operator("]");
    if (!slice && parts[1].kind == Kind::kLiteral && parts[1].value.is_null()) {
      cursor_.refuse("expected an index in the brackets");
    }
    if (!slice) return make(Kind::kIndex, std::move(parts));
    while (parts.size() < 4) parts.push_back(literal(nullptr));
    return make(Kind::kSlice, std::move(parts));
  }

  TemplateExpression filtered(TemplateExpression value) {
    while (true) {
      if (cursor_.skip_operator("|")) {
        value = filter(std::move(value));
      } else if (cursor_.skip_word("is")) {
        value = test(std::move(value));
      } else if (cursor_.is_operator("(")) {
        cursor_.take();
        value = make(Kind::kCall, {std::move(value)});
        arguments(value);
      } else {
        return value;
      }
    }
  }

  /// After "|".
  TemplateExpression filter(TemplateExpression value) {
    const std::string name = cursor_.want_name();
    value = make(Kind::kFilter, {std::move(value)}, name);
    if (cursor_.skip_operator("(")) arguments(value);
    return value;
  }

  /// After "is". One argument needs no brackets.
  TemplateExpression test(TemplateExpression value) {
    const bool negated = cursor_.skip_word("not");
    const std::string name = cursor_.want_name();
    value = make(Kind::kTest, {std::move(value)}, name);
    if (cursor_.skip_operator("(")) {
      arguments(value);
    } else if (argument_follows()) {
      value.parts.push_back(postfix(primary()));
      value.depth = std::max(value.depth, value.parts.back().depth + 1);
      if (value.depth > kMaxTreeDepth) cursor_.refuse("is nested too deeply");
    }
    return negated ? make(Kind::kNot, {std::move(value)}) : value;
  }

  bool argument_follows() const {
    const TemplateToken& next = cursor_.peek();
    if (cursor_.is_word("is")) cursor_.refuse("tests cannot be chained");
    switch (next.kind) {
      case TokenKind::kString:
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        return true;
      case TokenKind::kOperator:
        return next.text == "[" || next.text == "{";
      case TokenKind::kName:
        break;
      default:
        return false;
    }
    static constexpr std::array<std::string_view, 7> kWords = {"and", "or",  "else",     "if",
                                                               "in",  "not", "recursive"};
    return std::find(kWords.begin(), kWords.end(), next.text) == kWords.end();
  }

  TemplateCursor& cursor_;
};

}  // namespace

TemplateExpression parse_expression(TemplateCursor& cursor) {
  return ExpressionParser(cursor).expression();
}

TemplateExpression parse_tuple(TemplateCursor& cursor) {
  return ExpressionParser(cursor).tuple("");
}

TemplateExpression parse_iterable(TemplateCursor& cursor) {
  return ExpressionParser(cursor).or_expression();
}

TemplateExpression parse_block_filters(TemplateCursor& cursor) {
  ExpressionParser parser(cursor);
  TemplateExpression value = parser.make(TemplateExpression::Kind::kName, {}, kBlockOutput);
  do value = parser.filter(std::move(value));
  while (cursor.skip_operator("|"));
  return value;
}

}  // namespace accel
