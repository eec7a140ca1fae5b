#include "text/chat/chat_template.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "text/chat/template_values.h"
#include "text/json_node.h"

namespace accel {
namespace {

using Expression = TemplateExpression;
using Statement = TemplateStatement;
using Value = TemplateValue;

constexpr int64_t kMaxSteps = 2'000'000;
constexpr int64_t kLoopSteps = 20;  // cost of the `loop` variable
constexpr int64_t kMaxRange = 100'000;

/// The cost of copying a value, in steps.
int64_t cost_of(const Value& value) {
  if (value.is_string()) {
    return 1 + static_cast<int64_t>(value.get_ref<const std::string&>().size() / 256);
  }
  int64_t cost = 1;
  if (value.is_structured()) {
    for (const Value& item : value) cost += cost_of(item);
  }
  return cost;
}

/// One rendering of a template.
class TemplateRun {
 public:
  explicit TemplateRun(const Value& variables) {
    scopes_.emplace_back();
    for (const auto& item : variables.items()) scopes_[0][item.key()] = item.value();
  }

  std::string print(const std::vector<Statement>& statements) {
    run(statements);
    return std::move(out_);
  }

 private:
  enum class Flow { kOn, kBreak, kContinue };

  void step(int line, int64_t cost = 1) {
    steps_ += cost;
    if (steps_ > kMaxSteps) refuse_template(line, "takes too long");
  }

  Flow run(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements) {
      step(statement.line);
      const Flow flow = run(statement);
      if (flow != Flow::kOn) return flow;
    }
    return Flow::kOn;
  }

  Flow run(const Statement& statement) {
    switch (statement.kind) {
      case Statement::Kind::kText:
        put(statement.text, statement.line);
        return Flow::kOn;
      case Statement::Kind::kPrint:
        put(printed(value_of(statement.parts[0]), statement.line), statement.line);
        return Flow::kOn;
      case Statement::Kind::kIf:
        return run(is_true(value_of(statement.parts[0])) ? statement.body : statement.otherwise);
      case Statement::Kind::kFor:
        return run_loop(statement);
      case Statement::Kind::kSet:
        set(statement, value_of(statement.parts[0]));
        return Flow::kOn;
      case Statement::Kind::kSetBlock:
        set_block(statement);
        return Flow::kOn;
      case Statement::Kind::kGroup:
        return run(statement.body);
      case Statement::Kind::kBreak:
        return Flow::kBreak;
      case Statement::Kind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kOn;
  }

  void put(const std::string& text, int line) {
    if (out_.size() + text.size() > kMaxTemplateBytes)
      refuse_template(line, "prints more than the limit");
    out_ += text;
  }

  void set_block(const Statement& statement) {
    const std::string outside = std::exchange(out_, "");
    run(statement.body);
    set(statement, std::exchange(out_, outside));
  }

  void set(const Statement& statement, Value value) {
    const std::string& name = statement.names[0];
    if (statement.names.size() == 1) {
      scopes_.back()[name] = std::move(value);
      return;
    }
    Value* object = find(name);
    if (!object || !object->is_object()) {
      refuse_template(statement.line, text("'{}' is not a namespace", name));
    }
    (*object)[statement.names[1]] = std::move(value);
  }

  Value* find(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->find(name);
      if (found != scope->end()) return &found->second;
    }
    return nullptr;
  }

  /// The items of a loop that meet its condition.
  std::vector<Value> items_for(const Statement& loop) {
    Value buffer;
    std::vector<Value> items = items_of(look(loop.parts[0], buffer), loop.line);
    for (const Value& item : items) step(loop.line, cost_of(item));
    if (loop.parts.size() == 1) return items;
    std::vector<Value> kept;
    for (Value& item : items) {
      step(loop.line, kLoopSteps);
      scopes_.emplace_back();
      name_item(loop, item);
      if (is_true(value_of(loop.parts[1]))) kept.push_back(std::move(item));
      scopes_.pop_back();
    }
    return kept;
  }

  void name_item(const Statement& loop, const Value& item) {
    if (loop.names.size() == 1) {
      scopes_.back()[loop.names[0]] = item;
      return;
    }
    if (!item.is_array() || item.size() != 2) {
      refuse_template(loop.line, "a loop over pairs has an item that is not a pair");
    }
    for (size_t i = 0; i < 2; ++i) scopes_.back()[loop.names[i]] = item[i];
  }

  Flow run_loop(const Statement& loop) {
    const std::vector<Value> items = items_for(loop);
    if (items.empty()) return run(loop.otherwise);
    const auto size = static_cast<int64_t>(items.size());
    for (int64_t i = 0; i < size; ++i) {
      step(loop.line, kLoopSteps);
      scopes_.emplace_back();
      name_item(loop, items[static_cast<size_t>(i)]);
      Value& state = scopes_.back()["loop"];
      state = {{"index", i + 1},
               {"index0", i},
               {"first", i == 0},
               {"revindex", size - i},
               {"revindex0", size - i - 1},
               {"last", i + 1 == size},
               {"length", size}};
      if (i > 0) state["previtem"] = items[static_cast<size_t>(i) - 1];
      if (i + 1 < size) state["nextitem"] = items[static_cast<size_t>(i) + 1];
      const Flow flow = run(loop.body);
      scopes_.pop_back();
      if (flow == Flow::kBreak) break;
    }
    return Flow::kOn;
  }

  Value value_of(const Expression& expression) {
    using Kind = Expression::Kind;
    step(expression.line);
    const auto& parts = expression.parts;
    Value buffer;
    switch (expression.kind) {
      case Kind::kLiteral:
        return expression.value;
      case Kind::kName: {
        const Value* found = find(expression.name);
        if (found) step(expression.line, cost_of(*found));
        return found ? *found : undefined_value();
      }
      case Kind::kAttribute:
        return member(parts[0], expression.name);
      case Kind::kIndex:
        return member(parts[0], value_of(parts[1]));
      case Kind::kNot:
        return !is_true(look(parts[0], buffer));
      case Kind::kNegate:
        return computed("-", 0, value_of(parts[0]), expression.line);
      case Kind::kBinary:
        return binary(expression);
      case Kind::kAnd:
      case Kind::kOr: {
        Value left = value_of(parts[0]);
        return is_true(left) == (expression.kind == Kind::kOr) ? left : value_of(parts[1]);
      }
      case Kind::kChoice:
        if (is_true(value_of(parts[1]))) return value_of(parts[0]);
        return parts.size() > 2 ? value_of(parts[2]) : undefined_value();
      case Kind::kCall:
        return call(expression);
      case Kind::kFilter:
        return filtered(expression.name, look(parts[0], buffer), arguments_of(expression));
      case Kind::kTest:
        return is_kind(expression.name, look(parts[0], buffer), arguments_of(expression));
      case Kind::kList:
      case Kind::kDict:
      case Kind::kSlice:
        return gathered(expression);
    }
    return undefined_value();
  }

  /// The value, stored in `buffer` unless it is a variable, which may be large.
  const Value& look(const Expression& expression, Value& buffer) {
    if (expression.kind == Expression::Kind::kName) {
      step(expression.line);
      if (const Value* found = find(expression.name)) return *found;
    }
    buffer = value_of(expression);
    return buffer;
  }

  Value binary(const Expression& expression) {
    Value buffer;
    Value other;
    const Value& left = look(expression.parts[0], buffer);
    return computed(expression.name, left, look(expression.parts[1], other), expression.line);
  }

  /// Reads a member of a variable without a copy of the variable.
  Value member(const Expression& whole, const Value& key) {
    const Value* variable = whole.kind == Expression::Kind::kName ? find(whole.name) : nullptr;
    if (variable) return member_of(*variable, key, whole.line);
    if (whole.kind == Expression::Kind::kName) {
      refuse_template(whole.line, text("'{}' is not defined", whole.name));
    }
    return member_of(value_of(whole), key, whole.line);
  }

  Value gathered(const Expression& expression) {
    const auto& parts = expression.parts;
    if (expression.kind == Expression::Kind::kSlice) {
      return sliced(value_of(parts[0]), arguments_of(expression));
    }
    if (expression.kind == Expression::Kind::kList) {
      Value list = Value::array();
      for (const Expression& part : parts) list.push_back(value_of(part));
      step(expression.line, cost_of(list));
      return list;
    }
    Value dict = Value::object();
    for (size_t i = 0; i + 1 < parts.size(); i += 2) {
      const Value key = value_of(parts[i]);
      if (!key.is_string()) refuse_template(expression.line, "a dict key is not a string");
      dict[key.get<std::string>()] = value_of(parts[i + 1]);
    }
    step(expression.line, cost_of(dict));
    return dict;
  }

  TemplateArguments arguments_of(const Expression& expression) {
    TemplateArguments out{{}, {}, expression.line};
    const size_t unnamed = expression.parts.size() - expression.keywords.size();
    for (size_t i = 1; i < expression.parts.size(); ++i) {
      Value value = value_of(expression.parts[i]);
      if (i < unnamed) {
        out.values.push_back(std::move(value));
      } else {
        out.named[expression.keywords[i - unnamed]] = std::move(value);
      }
    }
    return out;
  }

  Value call(const Expression& expression) {
    const Expression& what = expression.parts[0];
    const TemplateArguments arguments = arguments_of(expression);
    if (what.kind == Expression::Kind::kAttribute) {
      return method_of(value_of(what.parts[0]), what.name, arguments);
    }
    if (what.kind != Expression::Kind::kName)
      refuse_template(expression.line, "calls a value that is not a function");
    const std::string& name = what.name;
    if (name == "raise_exception") {
      arguments.want(name, 1, 1);
      refuse_template(expression.line, text("the template raised '{}'",
                                            printed(arguments.values[0], expression.line)));
    }
    if (name == "namespace" || name == "dict") {
      if (!arguments.values.empty())
        refuse_template(expression.line, text("'{}' requires keyword arguments", name));
      Value dict = Value::object();
      for (const auto& [key, value] : arguments.named) dict[key] = value;
      return dict;
    }
    if (name == "range") return range(arguments);
    refuse_template(expression.line, text("the function '{}' is not supported", name));
  }

  static Value range(const TemplateArguments& arguments) {
    arguments.want("range", 1, 2);
    const bool two = arguments.values.size() == 2;
    for (const Value& value : arguments.values) {
      if (!value.is_number_integer()) refuse_template(arguments.line, "'range' requires integers");
    }
    const int64_t begin = two ? arguments.values[0].get<int64_t>() : 0;
    const int64_t end = arguments.values.back().get<int64_t>();
    if (begin < -kMaxRange || end > kMaxRange)
      refuse_template(arguments.line, "'range' is too long");
    Value list = Value::array();
    for (int64_t i = begin; i < end; ++i) list.push_back(i);
    return list;
  }

  std::vector<std::map<std::string, Value>> scopes_;
  std::string out_;
  int64_t steps_ = 0;
};

}  // namespace

struct ChatTemplate::Tree {
  std::vector<Statement> statements;
};

ChatTemplate::ChatTemplate(std::string_view source)
    : tree_(std::make_shared<const Tree>(Tree{parse_template(source)})) {}

std::string ChatTemplate::render(const nlohmann::ordered_json& variables) const {
  return TemplateRun(variables).print(tree_->statements);
}

std::optional<std::string> find_chat_template(const std::filesystem::path& path) {
  const auto folder = std::filesystem::is_directory(path) ? path : path.parent_path();
  const auto own = folder / "chat_template.jinja", config = folder / "tokenizer_config.json";
  if (std::filesystem::exists(own)) {
    const SharedBytes file = map_file(own.string());
    return std::string(reinterpret_cast<const char*>(file.view.data()), file.view.size());
  }
  std::optional<std::string> found;
  if (!std::filesystem::exists(config)) return found;
  read_json_file(config, [&](const JsonNode& file, std::string_view) {
    const JsonNode node = file.find("chat_template");
    if (node.is_null()) return;
    if (node.is_text()) {
      found = node.text();
      return;
    }
    for (const JsonNode& item : node.items()) {
      if (item.at("name").text() == "default") found = item.at("template").text();
    }
    if (!found) node.refuse("has no template named 'default'");
  });
  return found;
}

}  // namespace accel
