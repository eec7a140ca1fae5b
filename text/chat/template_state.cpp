#include "text/chat/template_state.h"

#include <utility>

#include "core/base/format_error.h"
#include "core/base/text.h"

namespace accel {
namespace {

using Value = TemplateValue;

constexpr int64_t kMaxSteps = 2'000'000;
constexpr int64_t kMaxRange = 100'000;

/// dict(mapping or pairs, key=value)
Value dict_of(const std::string& name, const TemplateArguments& arguments) {
  Value dict = Value::object();
  for (const Value& given : arguments.values) {
    if (!given.is_object()) {
      refuse_template(arguments.line, text("'{}' requires a dict or keyword arguments", name));
    }
    for (const auto& item : given.items()) dict[item.key()] = item.value();
  }
  for (const auto& [key, value] : arguments.named) dict[key] = value;
  return dict;
}

Value range(const TemplateArguments& arguments) {
  arguments.want("range", 1, 3);
  for (const Value& value : arguments.values) {
    if (!value.is_number_integer()) refuse_template(arguments.line, "'range' requires integers");
  }
  const auto& given = arguments.values;
  const int64_t begin = given.size() > 1 ? given[0].get<int64_t>() : 0;
  const int64_t end = given[given.size() > 1 ? 1 : 0].get<int64_t>();
  const int64_t step = given.size() > 2 ? given[2].get<int64_t>() : 1;
  if (step == 0) refuse_template(arguments.line, "'range' has a step of 0");
  for (const int64_t bound : {begin, end, step}) {
    if (bound < -kMaxRange || bound > kMaxRange)
      refuse_template(arguments.line, "'range' is too long");
  }
  Value list = Value::array();
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) list.push_back(i);
  return list;
}

}  // namespace

int64_t cost_of(const TemplateValue& value) {
  if (value.is_string()) {
    return 1 + static_cast<int64_t>(value.get_ref<const std::string&>().size() / 256);
  }
  int64_t cost = 1;
  if (value.is_structured()) {
    for (const Value& item : value) cost += cost_of(item);
  }
  return cost;
}

TemplateState::TemplateState(const TemplateValue& variables, const std::optional<ChatDate>& date)
    : date_(date) {
  scopes_.emplace_back();
  for (const auto& item : variables.items()) names()[item.key()] = item.value();
}

void TemplateState::step(int line, int64_t cost) {
  steps_ += cost;
  if (steps_ > kMaxSteps) refuse_template(line, "takes too long");
}

const TemplateValue* TemplateState::find(const std::string& name) const {
  for (size_t at = current_;; at = scopes_[at].parent) {
    const auto found = scopes_[at].names.find(name);
    if (found != scopes_[at].names.end()) return &found->second;
    if (at == 0) return nullptr;
  }
}

void TemplateState::assign(const std::vector<std::string>& to, const TemplateValue& value,
                           int line) {
  if (to.size() == 1) {
    names()[to[0]] = value;
    return;
  }
  const std::vector<Value> items = items_of(value, line);
  if (items.size() != to.size()) {
    refuse_template(line, text("assigns {} items to {} names", items.size(), to.size()));
  }
  for (size_t i = 0; i < to.size(); ++i) names()[to[i]] = items[i];
}

void TemplateState::set(const TemplateStatement& statement, TemplateValue value) {
  const std::string& name = statement.names[0];
  if (statement.names.size() == 1) {
    names()[name] = std::move(value);
    return;
  }
  const Value* object = find(name);
  if (!object || !is_handle(*object, TemplateHandle::kNamespace)) {
    refuse_template(statement.line, text("'{}' is not a namespace", name));
  }
  namespaces_[handle_number(*object)][statement.names[1]] = std::move(value);
}

TemplateValue TemplateState::make_macro(const TemplateStatement& definition) {
  macros_.push_back({&definition, current_});
  return make_handle(TemplateHandle::kMacro, macros_.size() - 1);
}

const TemplateState::Macro* TemplateState::macro(const TemplateValue& value) const {
  return is_handle(value, TemplateHandle::kMacro) ? &macros_[handle_number(value)] : nullptr;
}

const TemplateValue* TemplateState::space(const TemplateValue& value) const {
  return is_handle(value, TemplateHandle::kNamespace) ? &namespaces_[handle_number(value)]
                                                      : nullptr;
}

TemplateValue TemplateState::function(const std::string& name) const {
  static const std::vector<std::string> kNames = {"raise_exception", "namespace", "dict", "range",
                                                  "strftime_now"};
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end() || (name == "strftime_now" && !date_)) return undefined_value();
  return make_handle(TemplateHandle::kFunction, static_cast<size_t>(found - kNames.begin()));
}

TemplateValue TemplateState::date_text(const TemplateArguments& arguments) const {
  arguments.want("strftime_now", 1, 1);
  if (!date_) refuse_template(arguments.line, "calls 'strftime_now', but no 'date' is set");
  try {
    return date_->written(arguments.text("strftime_now", 0));
  } catch (const FormatError& error) {
    refuse_template(arguments.line, error.what());
  }
}

TemplateValue TemplateState::call_function(const std::string& name,
                                           const TemplateArguments& arguments) {
  const int line = arguments.line;
  if (name == "raise_exception") {
    arguments.want(name, 1, 1);
    refuse_template(line, text("the template raised '{}'", printed(arguments.values.at(0), line)));
  }
  if (name == "namespace") {
    namespaces_.push_back(dict_of(name, arguments));
    return make_handle(TemplateHandle::kNamespace, namespaces_.size() - 1);
  }
  if (name == "dict") return dict_of(name, arguments);
  if (name == "range") return range(arguments);
  if (name == "strftime_now") return date_text(arguments);
  refuse_template(line, text("the function '{}' is not supported", name));
}

}  // namespace accel
