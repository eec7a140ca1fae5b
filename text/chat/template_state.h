// Variables, macros and namespaces of one rendering of a chat template.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "text/chat/chat_date.h"
#include "text/chat/template_values.h"

namespace accel {

/// The cost of copying a value, in steps.
int64_t cost_of(const TemplateValue& value);
constexpr int64_t kLoopSteps = 20;  ///< cost of the `loop` variable

class TemplateState {
 public:
  using Names = std::map<std::string, TemplateValue>;

  /// A macro, or the caller of a call block, with the scope of its definition.
  struct Macro {
    const TemplateStatement* definition = nullptr;
    size_t scope = 0;
  };

  /// Opens a scope within another one.
  class Opened {
   public:
    Opened(TemplateState& state, size_t parent) : state_(state), before_(state.current_) {
      state_.current_ = state_.scopes_.size();
      state_.scopes_.push_back({{}, std::min(parent, state_.current_ - 1)});
    }
    explicit Opened(TemplateState& state) : Opened(state, state.current_) {}
    ~Opened() {
      state_.scopes_.pop_back();
      state_.current_ = before_;
    }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

   private:
    TemplateState& state_;
    size_t before_;
  };

  /// `variables` is a dict. Without a date, strftime_now is not defined.
  TemplateState(const TemplateValue& variables, const std::optional<ChatDate>& date);

  /// Throws FormatError beyond two million steps.
  void step(int line, int64_t cost = 1);

  /// The variables of the current scope.
  Names& names() { return scopes_[current_].names; }
  /// Null for a name without a value.
  const TemplateValue* find(const std::string& name) const;
  /// Assigns to a variable, or to an attribute of a namespace.
  void set(const TemplateStatement& statement, TemplateValue value);
  /// Assigns the value to a name, or its items to several names.
  void assign(const std::vector<std::string>& to, const TemplateValue& value, int line);

  TemplateValue make_macro(const TemplateStatement& definition);
  /// Null for another value.
  const Macro* macro(const TemplateValue& value) const;
  /// Null for another value.
  const TemplateValue* space(const TemplateValue& value) const;

  /// A function of Jinja or transformers; undefined for another name.
  TemplateValue function(const std::string& name) const;
  TemplateValue call_function(const std::string& name, const TemplateArguments& arguments);

 private:
  struct Scope {
    Names names = {};
    size_t parent = 0;  ///< the scope whose names it sees; that of the template sees itself
  };

  TemplateValue date_text(const TemplateArguments& arguments) const;

  const std::optional<ChatDate>& date_;
  std::deque<Scope> scopes_;  // the template's own, then those that are open
  size_t current_ = 0;
  std::deque<Macro> macros_;
  std::deque<TemplateValue> namespaces_;
  int64_t steps_ = 0;
};

}  // namespace accel
