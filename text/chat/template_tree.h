// Syntax tree of chat templates: the subset of Jinja that models use.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/format_error.h"

namespace accel {

/// A discarded value is undefined.
using TemplateValue = nlohmann::ordered_json;

enum class TemplateTokenKind {
  kText,
  kPrint,      ///< {{
  kStatement,  ///< {%
  kClose,      ///< }} or %}
  kName,
  kInteger,
  kFloat,
  kString,
  kOperator,
  kEnd
};

struct TemplateToken {
  TemplateTokenKind kind = TemplateTokenKind::kEnd;
  std::string text;
  int line = 0;  ///< from 1
};

/// The tokens of a template; the last one is kEnd. White space is stripped with trim_blocks and
/// lstrip_blocks, as transformers configures Jinja. Throws FormatError.
std::vector<TemplateToken> template_tokens(std::string_view source);

struct TemplateExpression {
  enum class Kind {
    kLiteral,  ///< value
    kName,
    kList,       ///< parts
    kDict,       ///< parts: key, value, key, value
    kAttribute,  ///< parts[0].name
    kIndex,      ///< parts[0][parts[1]]
    kSlice,      ///< parts[0][parts[1]:parts[2]:parts[3]], each may be a null literal
    kCall,       ///< parts[0](the others)
    kFilter,     ///< parts[0] | name(the others)
    kTest,       ///< parts[0] is name(the others)
    kNot,
    kNegate,
    kBinary,  ///< name is the operator
    kAnd,
    kOr,
    kChoice  ///< parts[0] if parts[1] else parts[2] (undefined without it)
  };

  Kind kind = Kind::kLiteral;
  int line = 0;
  int depth = 1;  ///< nesting depth, this expression included
  std::string name = {};
  TemplateValue value = {};
  std::vector<TemplateExpression> parts = {};
  std::vector<std::string> keywords = {};  ///< names of the last operands of a call
};

struct TemplateStatement {
  enum class Kind {
    kText,
    kPrint,     ///< parts[0]
    kIf,        ///< parts[0], body, otherwise
    kFor,       ///< names in parts[0] if parts[1], body, otherwise; text: "recursive" or ""
    kSet,       ///< names[0] or names[0].names[1] = parts[0]
    kUnpack,    ///< names = the items of parts[0]
    kSetBlock,  ///< names as of kSet = the output of body, through the filters of parts[0] if given
    kMacro,     ///< names[0](the other names, of which the last have defaults in parts): body
    kCallBlock,    ///< parts[0] is called with the caller(names): body
    kFilterBlock,  ///< the output of body through the filters of parts[0]
    kWith,         ///< names = parts, in a scope of its own: body
    kGeneration,   ///< body, which the assistant writes
    kBreak,
    kContinue
  };

  Kind kind = Kind::kText;
  int line = 0;
  std::string text = {};
  std::vector<std::string> names = {};
  std::vector<TemplateExpression> parts = {};
  std::vector<TemplateStatement> body = {};
  std::vector<TemplateStatement> otherwise = {};
};

/// The name that stands for the output of the body in the filters of kSetBlock and kFilterBlock. No
/// template can write it.
constexpr const char* kBlockOutput = "block output";

/// Throws FormatError with the line for syntax that is not supported or not Jinja.
std::vector<TemplateStatement> parse_template(std::vector<TemplateToken> tokens);

/// Throws FormatError "line 3: ...".
[[noreturn]] void refuse_template(int line, const std::string& what);

}  // namespace accel
