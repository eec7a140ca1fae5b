#include "text/chat/template_run.h"

#include <algorithm>
#include <utility>

#include "core/base/format_error.h"
#include "core/base/text.h"
#include "text/chat/template_state.h"

namespace accel {
namespace {

using Expression = TemplateExpression;
using Statement = TemplateStatement;
using Value = TemplateValue;

constexpr int kMaxMacroDepth = 40;

/// One rendering of a template.
class TemplateRun {
 public:
  TemplateRun(const Value& variables, const std::optional<ChatDate>& date)
      : state_(variables, date) {}

  RenderedChat print(const std::vector<Statement>& statements) {
    run(statements);
    return {std::move(out_), std::move(generations_), lost_generation_};
  }

 private:
  enum class Flow { kOn, kBreak, kContinue };

  void put(const std::string& text, int line) {
    if (out_.size() + text.size() > kMaxTemplateBytes)
      refuse_template(line, "prints more than the limit");
    out_ += text;
  }

  Flow run(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements) {
      state_.step(statement.line);
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
        state_.set(statement, value_of(statement.parts[0]));
        return Flow::kOn;
      case Statement::Kind::kBreak:
        return Flow::kBreak;
      case Statement::Kind::kContinue:
        return Flow::kContinue;
      default:
        run_block(statement);
        return Flow::kOn;
    }
  }

  void run_block(const Statement& statement) {
    switch (statement.kind) {
      case Statement::Kind::kUnpack:
        state_.assign(statement.names, value_of(statement.parts[0]), statement.line);
        return;
      case Statement::Kind::kSetBlock:
        state_.set(statement, output_of(statement));
        return;
      case Statement::Kind::kFilterBlock:
        put(printed(output_of(statement), statement.line), statement.line);
        return;
      case Statement::Kind::kMacro:
        state_.names()[statement.names[0]] = state_.make_macro(statement);
        return;
      case Statement::Kind::kCallBlock: {
        TemplateArguments arguments = arguments_of(statement.parts[0]);
        arguments.named["caller"] = state_.make_macro(statement.body[0]);
        put(printed(call(statement.parts[0], std::move(arguments)), statement.line),
            statement.line);
        return;
      }
      case Statement::Kind::kWith: {
        std::vector<Value> values;
        for (const Expression& part : statement.parts) values.push_back(value_of(part));
        const TemplateState::Opened scope(state_);
        for (size_t i = 0; i < values.size(); ++i)
          state_.names()[statement.names[i]] = std::move(values[i]);
        run(statement.body);
        return;
      }
      default:
        run_generation(statement);
    }
  }

  void run_generation(const Statement& statement) {
    const size_t begin = out_.size();
    const TemplateState::Opened scope(state_);
    run(statement.body);
    if (captures_ > 0) {
      lost_generation_ = statement.line;
    } else {
      generations_.push_back({begin, out_.size()});
    }
  }

  /// What the statements print.
  std::string captured(const std::vector<Statement>& statements) {
    std::string outside = std::exchange(out_, "");
    ++captures_;
    run(statements);
    --captures_;
    return std::exchange(out_, std::move(outside));
  }

  /// The output of a block in a scope of its own, through its filters.
  Value output_of(const Statement& block) {
    const TemplateState::Opened scope(state_);
    Value output = captured(block.body);
    if (block.parts.empty()) return output;
    state_.names()[kBlockOutput] = std::move(output);
    return value_of(block.parts[0]);
  }

  Value call_macro(const TemplateState::Macro& macro, TemplateArguments arguments) {
    const Statement& definition = *macro.definition;
    const auto& parameters = definition.names;  // after the macro's own name
    const size_t count = parameters.size() - 1;
    if (arguments.values.size() > count) {
      refuse_template(arguments.line, text("the macro '{}' takes {} arguments, not {}",
                                           parameters[0], count, arguments.values.size()));
    }
    if (++depth_ > kMaxMacroDepth) refuse_template(arguments.line, "calls macros too deeply");
    state_.step(arguments.line, kLoopSteps);
    const TemplateState::Opened scope(state_, macro.scope);
    for (size_t i = 0; i < count; ++i) {
      const std::string& name = parameters[i + 1];
      const auto named = arguments.named.find(name);
      const size_t defaults = count - definition.parts.size();
      if (i < arguments.values.size()) {
        state_.names()[name] = std::move(arguments.values[i]);
      } else if (named != arguments.named.end()) {
        state_.names()[name] = std::move(named->second);
        arguments.named.erase(named);
      } else {
        state_.names()[name] =
            i < defaults ? undefined_value() : value_of(definition.parts[i - defaults]);
      }
    }
    for (auto& [name, value] : arguments.named) {
      if (name != "caller") {
        refuse_template(arguments.line,
                        text("the macro '{}' has no parameter '{}'", parameters[0], name));
      }
      state_.names()[name] = std::move(value);
    }
    Value output = captured(definition.body);
    --depth_;
    return output;
  }

  /// The items that meet a loop's condition.
  std::vector<Value> items_for(const Statement& loop, const Value& whole) {
    std::vector<Value> items = items_of(whole, loop.line);
    for (const Value& item : items) state_.step(loop.line, cost_of(item));
    if (loop.parts.size() == 1) return items;
    std::vector<Value> kept;
    for (Value& item : items) {
      state_.step(loop.line, kLoopSteps);
      const TemplateState::Opened scope(state_);
      state_.assign(loop.names, item, loop.line);
      if (is_true(value_of(loop.parts[1]))) kept.push_back(std::move(item));
    }
    return kept;
  }

  Flow run_loop(const Statement& loop) {
    Value buffer;
    const std::vector<Value> items = items_for(loop, look(loop.parts[0], buffer));
    if (items.empty()) return run(loop.otherwise);
    loops_.push_back(&loop);
    run_items(loop, items);
    loops_.pop_back();
    return Flow::kOn;
  }

  void run_items(const Statement& loop, const std::vector<Value>& items) {
    const auto size = static_cast<int64_t>(items.size());
    for (int64_t i = 0; i < size; ++i) {
      state_.step(loop.line, kLoopSteps);
      const TemplateState::Opened scope(state_);
      state_.assign(loop.names, items[static_cast<size_t>(i)], loop.line);
      Value& state = state_.names()["loop"];
      state = {{"index", i + 1},
               {"index0", i},
               {"first", i == 0},
               {"revindex", size - i},
               {"revindex0", size - i - 1},
               {"last", i + 1 == size},
               {"length", size},
               {"depth", recursion_ + 1},
               {"depth0", recursion_}};
      if (i > 0) state["previtem"] = items[static_cast<size_t>(i) - 1];
      if (i + 1 < size) state["nextitem"] = items[static_cast<size_t>(i) + 1];
      if (run(loop.body) == Flow::kBreak) return;
    }
  }

  /// loop(items) in a recursive loop.
  Value recurse(const TemplateArguments& arguments) {
    arguments.want("loop", 1, 1);
    const Statement* loop = loops_.empty() ? nullptr : loops_.back();
    if (!loop || loop->text != "recursive") {
      refuse_template(arguments.line, "calls a loop that is not recursive");
    }
    if (++depth_ > kMaxMacroDepth) refuse_template(arguments.line, "calls macros too deeply");
    ++recursion_;
    std::string outside = std::exchange(out_, "");
    ++captures_;
    run_items(*loop, items_for(*loop, arguments.values[0]));
    --captures_;
    --recursion_;
    --depth_;
    return std::exchange(out_, std::move(outside));
  }

  Value value_of(const Expression& expression) {
    using Kind = Expression::Kind;
    state_.step(expression.line);
    const auto& parts = expression.parts;
    Value buffer;
    switch (expression.kind) {
      case Kind::kLiteral:
        return expression.value;
      case Kind::kName: {
        const Value* found = state_.find(expression.name);
        if (found) state_.step(expression.line, cost_of(*found));
        return found ? *found : state_.function(expression.name);
      }
      case Kind::kAttribute:
        return attribute(parts[0], expression.name);
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
        return call(expression, arguments_of(expression));
      case Kind::kFilter: {
        const Value& value = look(parts[0], buffer);
        state_.step(expression.line, cost_of(value));
        return filtered(expression.name, value, arguments_of(expression));
      }
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
      state_.step(expression.line);
      if (const Value* found = state_.find(expression.name)) return *found;
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
    const Value* variable =
        whole.kind == Expression::Kind::kName ? state_.find(whole.name) : nullptr;
    if (!variable && whole.kind == Expression::Kind::kName) {
      refuse_template(whole.line, text("'{}' is not defined", whole.name));
    }
    Value buffer;
    if (!variable) buffer = value_of(whole);
    const Value& value = variable ? *variable : buffer;
    const Value* space = state_.space(value);
    return member_of(space ? *space : value, key, whole.line);
  }

  /// value.name: a method of a dict hides the key of its name.
  Value attribute(const Expression& whole, const std::string& name) {
    if (is_dict_method(name)) {
      Value buffer;
      if (look(whole, buffer).is_object()) return make_handle(TemplateHandle::kMethod, 0);
    }
    return member(whole, name);
  }

  Value gathered(const Expression& expression) {
    const auto& parts = expression.parts;
    if (expression.kind == Expression::Kind::kSlice) {
      return sliced(value_of(parts[0]), arguments_of(expression));
    }
    if (expression.kind == Expression::Kind::kList) {
      Value list = Value::array();
      for (const Expression& part : parts) list.push_back(value_of(part));
      state_.step(expression.line, cost_of(list));
      return list;
    }
    Value dict = Value::object();
    for (size_t i = 0; i + 1 < parts.size(); i += 2) {
      const std::string key = stored_key(value_of(parts[i]), expression.line);
      dict[key] = value_of(parts[i + 1]);
    }
    state_.step(expression.line, cost_of(dict));
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

  Value call(const Expression& expression, TemplateArguments arguments) {
    const Expression& what = expression.parts[0];
    if (what.kind == Expression::Kind::kAttribute) {
      return call_method(what, std::move(arguments));
    }
    if (what.kind == Expression::Kind::kName) {
      const Value* found = state_.find(what.name);
      if (const auto* macro = found ? state_.macro(*found) : nullptr) {
        return call_macro(*macro, std::move(arguments));
      }
      if (found && what.name == "loop") return recurse(arguments);
      if (!found) return state_.call_function(what.name, arguments);
    }
    const auto* macro = state_.macro(value_of(what));
    if (!macro) refuse_template(expression.line, "calls a value that is not a function");
    return call_macro(*macro, std::move(arguments));
  }

  Value call_method(const Expression& what, TemplateArguments arguments) {
    Value buffer;
    const Value& value = look(what.parts[0], buffer);
    if (const Value* space = state_.space(value)) {
      const auto* macro = state_.macro(member_of(*space, what.name, what.line));
      if (!macro) refuse_template(what.line, "calls a value that is not a function");
      return call_macro(*macro, std::move(arguments));
    }
    const Expression& whole = what.parts[0];
    if (whole.kind == Expression::Kind::kName && whole.name == "loop" && what.name == "cycle" &&
        !arguments.values.empty()) {
      const auto turn = value.at("index0").get<size_t>();
      return arguments.values[turn % arguments.values.size()];
    }
    state_.step(what.line, cost_of(value));
    return method_of(value, what.name, arguments);
  }

  TemplateState state_;
  std::vector<const Statement*> loops_;  // those that run
  std::vector<ChatSpan> generations_;
  int lost_generation_ = 0;
  int captures_ = 0;       // blocks whose output is a value
  int depth_ = 0;          // of calls of macros and recursive loops
  int64_t recursion_ = 0;  // of recursive loops
  std::string out_;
};

}  // namespace

RenderedChat run_template(const std::vector<TemplateStatement>& statements,
                          const TemplateValue& variables, const std::optional<ChatDate>& date) {
  return TemplateRun(variables, date).print(statements);
}

}  // namespace accel
