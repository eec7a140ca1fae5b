#include "runner/launch/accelerate_words.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <utility>

#include "core/interpolate.h"

namespace accel {
namespace {

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool among(std::string_view words, const std::string& word) {
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    if (words.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

std::string place_of_word(const Span& where) {
  const Source* source = where.source.get();
  if (!source) return {};
  if (source->kind == Source::Kind::kArgument) {
    return "argument " + std::to_string(source->argument) + ": ";
  }
  if (source->kind == Source::Kind::kEnvironment) return "environment " + source->path + ": ";
  return source->path + ':' + std::to_string(where.line) + ':' + std::to_string(where.column) +
         ": ";
}

}  // namespace

bool says_nothing(const Node& value, std::string_view neutral) {
  if (const Scalar* scalar = value.scalar()) {
    return scalar->text.empty() || among(neutral, lower_case(scalar->text));
  }
  if (const Node::List* list = value.list()) {
    return std::all_of(list->begin(), list->end(),
                       [](const Node& item) { return says_nothing(item, {}); });
  }
  return value.null() || value.map()->empty();
}

std::optional<bool> read_truth(const Node& value, const std::string& shown, Diagnostics& problems) {
  if (const Scalar* scalar = value.scalar()) {
    const std::string word = lower_case(scalar->text);
    if (among("true yes on y t 1", word)) return true;
    if (among("false no off n f 0", word)) return false;
  }
  problems.error(value.where, "'" + shown + "' is neither true nor false");
  return std::nullopt;
}

std::string shown_word(std::string_view name, std::string_view between, const Node& value) {
  const Scalar* scalar = value.scalar();
  std::string out(name);
  if (scalar) out.append(between).append(scalar->text);
  return out;
}

const ForeignWord* find_word(std::span<const ForeignWord> words, std::string_view name) {
  const auto found = std::find_if(words.begin(), words.end(),
                                  [&](const ForeignWord& word) { return word.name == name; });
  return found == words.end() ? nullptr : &*found;
}

std::vector<std::string> names_of(std::span<const ForeignWord> words) {
  std::vector<std::string> names;
  for (const ForeignWord& word : words) names.emplace_back(word.name);
  return names;
}

void WordLayer::set(std::string_view key, Node value) {
  const size_t dot = key.find('.');
  const std::string section(key.substr(0, dot)), option(key.substr(dot + 1));
  const Span where = value.where;
  Node::Entry* outer = tree_.find(section);
  if (!outer) {
    tree_.map()->push_back({section, where, {Node::Map{}, where}});
    outer = &tree_.map()->back();
  }
  value = escape_references(std::move(value));
  if (Node::Entry* old = outer->node.find(option)) {
    *old = {option, where, std::move(value)};
  } else {
    outer->node.map()->push_back({option, where, std::move(value)});
  }
}

void WordLayer::refuse(const Span& where, const std::string& shown, std::string_view reason,
                       std::string_view hint) {
  std::string message = "'" + shown + "' is not supported: ";
  problems_.error(where, message.append(reason), std::string(hint));
}

void WordLayer::warn(const Span& where, const std::string& message) {
  warnings_.push_back(place_of_word(where) + message);
}

void WordLayer::apply(const ForeignWord& word, const Node& value, const std::string& shown) {
  using Effect = ForeignWord::Effect;
  if (word.effect == Effect::kDetail || says_nothing(value, word.neutral)) return;
  switch (word.effect) {
    case Effect::kSets:
      set(word.target, value);
      return;
    case Effect::kTurnsOn:
      if (read_truth(value, shown, problems_).value_or(false)) {
        const size_t equals = word.target.find('=');
        set(word.target.substr(0, equals),
            scalar_node(std::string(word.target.substr(equals + 1)), false, value.where));
      }
      return;
    case Effect::kPrecision: {
      Node lower = value;
      if (Scalar* scalar = lower.scalar()) scalar->text = lower_case(scalar->text);
      if (lower.scalar() && lower.scalar()->text == "fp8") {
        refuse(value.where, shown, reasons::kFp8, "use bf16");
      } else {
        set(word.target, std::move(lower));
      }
      return;
    }
    case Effect::kRefused:
      refuse(value.where, shown, word.target, word.hint);
      return;
    case Effect::kIdle:
      warn(value.where, "'" + shown + "' changes nothing: " + std::string(word.target));
      return;
    case Effect::kDetail:
    case Effect::kPlain:
      return;
  }
}

}  // namespace accel
