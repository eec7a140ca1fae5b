#include "compat/sharding/apply_sharding.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/base/text.h"
#include "core/recipe/number_text.h"
#include "core/recipe/scalar.h"
#include "core/recipe/schema_fields.h"
#include "train/recipe/accelerator_section.h"

namespace accel {
namespace {

using Act = ShardingKey::Effect;

constexpr std::string_view kStage = "accelerator.fsdp.stage";

std::vector<std::string> words_of(std::string_view text, std::string_view separators) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of(separators, begin), text.size());
    if (end > begin) words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

/// The texts of a list, or of one text with `separators`.
std::vector<std::string> items_of(const Node& value, std::string_view separators) {
  std::vector<std::string> items;
  if (const Scalar* scalar = value.scalar()) items = words_of(scalar->text, separators);
  if (const Node::List* list = value.list()) {
    for (const Node& item : *list) {
      if (item.scalar()) items.push_back(item.scalar()->text);
    }
  }
  return items;
}

/// Whether the recipe of this version has the option. Only sharding options can be missing.
bool recipe_has(const std::string& target) {
  if (!target.starts_with("accelerator.")) return true;
  static const std::set<std::string> names = [] {
    std::set<std::string> all;
    for (const FieldInfo& field : AcceleratorSection::schema().info()) {
      all.insert("accelerator." + field.name);
      for (const FieldInfo& inner : field.fields) {
        all.insert("accelerator." + field.name + '.' + inner.name);
      }
    }
    return all;
  }();
  return names.contains(target);
}

/// A name pattern of the parameters of modules that a regular expression matches whole. Null for
/// an expression with other operators than '.', '.*' and '\.'.
std::optional<std::string> pattern_of(std::string expression) {
  if (expression.starts_with('^')) expression.erase(0, 1);
  if (expression.ends_with('$')) expression.pop_back();
  std::string pattern;
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    const char next = i + 1 < expression.size() ? expression[i + 1] : '\0';
    if (c == '\\' && next == '.') {
      pattern += '.';
      ++i;
    } else if (c == '.' && next == '*') {
      pattern += '*';
      ++i;
    } else if (c == '.') {
      pattern += '?';
    } else if (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-') {
      pattern += c;
    } else {
      return std::nullopt;
    }
  }
  return pattern + ".*";
}

/// An option with its row.
struct MatchedOption {
  ShardingOption option;
  ShardingMatch match;
  std::string_view name() const { return match.key ? match.key->name : ""; }
};

/// A value of a recipe's option and the option that it is from.
struct ShardingTarget {
  const ShardingOption* option;
  std::string target;
  Node value;
};

/// The sections around options: "zero_optimization" of "zero_optimization.stage".
std::vector<std::string> sections_of(const std::vector<std::string>& names) {
  std::set<std::string> sections;
  for (const std::string& name : names) {
    for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
      sections.insert(name.substr(0, dot));
    }
  }
  return {sections.begin(), sections.end()};
}

class ShardingPass {
 public:
  ShardingPass(ShardingOptions given, ShardingSink& sink) : given_(std::move(given)), sink_(sink) {}

  void run() {
    for (ShardingOption& option : given_.options) {
      const ShardingMatch match = match_option(given_.family, option.name, option.value);
      options_.push_back({std::move(option), match});
    }
    resolve_open_precision();
    choose_strategy();
    say_remarks();
    for (const MatchedOption& each : options_) apply(each);
    set_default_stage();
    write_targets();
  }

 private:
  const MatchedOption* find(std::string_view name) const {
    const auto found =
        std::find_if(options_.begin(), options_.end(), [&](const MatchedOption& each) {
          return each.name() == name && !is_left_open(each.option.value);
        });
    return found == options_.end() ? nullptr : &*found;
  }

  /// Whether an option or a fact has one of the values; no value: whether it is missing.
  bool holds(std::string_view condition) const {
    const size_t equals = condition.find('=');
    const std::string_view name = condition.substr(0, equals);
    const std::string_view value = condition.substr(equals + 1);
    const MatchedOption* option = find(name);
    const auto fact = given_.facts.find(std::string(name));
    if (value.empty()) return !option && fact == given_.facts.end();
    if (option) return has_value(value, option->option.value);
    return fact != given_.facts.end() && has_value(value, scalar_node(fact->second));
  }

  void remove(std::string_view name, const char* reason) {
    const auto found = std::find_if(options_.begin(), options_.end(),
                                    [&](const MatchedOption& each) { return each.name() == name; });
    if (given_.generated) {
      sink_.keep_same(found->option);
    } else {
      sink_.have_no_effect(found->option, reason);
    }
    options_.erase(found);
  }

  /// `fp16.enabled: auto` of DeepSpeed is the mixed precision of the trainer.
  void resolve_open_precision() {
    const auto precision = given_.facts.find("mixed_precision");
    if (precision == given_.facts.end()) return;
    const std::string enabled = precision->second + ".enabled";
    const bool is_open = std::any_of(options_.begin(), options_.end(), [&](const auto& each) {
      return each.name() == enabled && is_left_open(each.option.value);
    });
    if (is_open) given_.facts[enabled] = "true";
  }

  /// FSDP has two options for the stage, of which a version reads one.
  void choose_strategy() {
    const MatchedOption* strategy = find("sharding_strategy");
    const MatchedOption* reshard = find("reshard_after_forward");
    if (strategy && reshard) {
      if (holds("version=2")) {
        remove("sharding_strategy", "FSDP2 reads 'reshard_after_forward' instead");
      } else {
        remove("reshard_after_forward", "FSDP1 reads 'sharding_strategy' instead");
      }
    } else if (reshard && !holds("version=2") && !holds("reshard_after_forward=full_shard true")) {
      given_.facts["strategy_in_reshard"] = "true";
    }
  }

  void say_remarks() {
    if (!given_.enabled_by) return;
    for (const ShardingRemark& remark : given_.family.remarks) {
      const std::vector<std::string> all = words_of(remark.when, " ");
      if (std::all_of(all.begin(), all.end(), [&](const std::string& w) { return holds(w); })) {
        sink_.remark(std::string(remark.text));
      }
    }
  }

  void apply(const MatchedOption& each) {
    const ShardingOption& option = each.option;
    const ShardingKey* key = each.match.key;
    const ShardingKey* row = each.match.row;
    if (!key) {
      std::vector<std::string> names = option_names(given_.family);
      const std::vector<std::string> sections = sections_of(names);
      const bool is_section = option.value.map() && option.value.map()->empty();
      if (is_section && std::find(sections.begin(), sections.end(), option.name) != sections.end())
        return sink_.keep_same(option);
      if (is_section) names.insert(names.end(), sections.begin(), sections.end());
      const bool prefixed = option.name.starts_with(given_.family.prefix);
      for (std::string& name : names) {
        if (prefixed) name.insert(0, given_.family.prefix);
      }
      std::string hint = did_you_mean(option.name, names);
      if (hint.empty()) hint = "leave it out; others ignore it silently";
      return sink_.reject(option, text("unknown option '{}'", option.name), hint);
    }
    if (is_left_open(option.value)) return sink_.keep_same(option);
    if (!row) {
      return sink_.reject(option,
                          text("'{}' wants {}, not {}", option.name,
                               option_values(given_.family, key->name), option.value.describe()),
                          {});
    }
    if (!row->only_with.empty() && !holds(row->only_with)) {
      if (given_.generated) return sink_.keep_same(option);
      std::string other(row->only_with);
      other.replace(other.find('='), 1, ": ");
      return sink_.have_no_effect(option, text("it is read with '{}' only", other));
    }
    apply_row(option, *row);
  }

  void apply_row(const ShardingOption& option, const ShardingKey& row) {
    const std::string says(row.says);
    switch (row.effect) {
      case Act::kSame:
        return sink_.keep_same(option);
      case Act::kNoEffect:
        return sink_.have_no_effect(option, says);
      case Act::kRefused:
        return sink_.refuse(option, says, std::string(row.hint));
      case Act::kFile:
        return sink_.read_file(option);
      case Act::kBlocks:
        return check_blocks(option);
      case Act::kPatterns:
        return set_patterns(option, says);
      case Act::kSets:
        return set_all(option, says);
      case Act::kSteps:
      case Act::kPower:
      case Act::kInteger:
        return set_number(option, row);
    }
  }

  void add_target(const ShardingOption& option, std::string target, Node value) {
    value.where = option.value.where;
    targets_.push_back({&option, std::move(target), std::move(value)});
  }

  void set_all(const ShardingOption& option, const std::string& says) {
    for (const std::string& each : words_of(says, " ")) {
      const size_t equals = each.find('=');
      if (equals == each.npos) {
        add_target(option, each, option.value);
        continue;
      }
      std::string value = each.substr(equals + 1);
      if (value == "@machines") {
        const auto machines = given_.facts.find("num_machines");
        if (machines == given_.facts.end()) {
          sink_.guess(
              option,
              "replicates over machines: without 'num_machines' one is assumed, whose ranks "
              "share one copy of the model");
          continue;
        }
        value = machines->second;
      }
      add_target(option, each.substr(0, equals), scalar_node(value));
    }
  }

  void set_number(const ShardingOption& option, const ShardingKey& row) {
    const double number = parse_number({option.value.scalar()->text}).value.value_or(0);
    const bool power = row.effect == Act::kPower;
    constexpr double kMostPower = 126;  // of a finite float
    const double most = power ? kMostPower : 9e15;
    if (number != std::floor(number) || number < (power ? 0 : -1) || number > most) {
      return sink_.reject(
          option, text("'{}' wants a whole number, not {}", option.name, option.value.describe()),
          {});
    }
    const auto whole = std::to_string(static_cast<int64_t>(number));
    std::string written = power ? show_number(std::exp2(number)) : whole;
    if (row.effect == Act::kSteps) written += " steps";
    add_target(option, std::string(row.says), scalar_node(written));
  }

  void check_blocks(const ShardingOption& option) {
    const auto known = block_classes();
    for (const std::string& name : items_of(option.value, ",[]'\" ")) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      const std::vector<std::string> names(known.begin(), known.end());
      return sink_.refuse(
          option, text("no model has blocks '{}'", name),
          text("leave it out: blocks are those of the model; known are {}", joined(names)));
    }
    sink_.keep_same(option);
  }

  void set_patterns(const ShardingOption& option, const std::string& target) {
    Node patterns{Node::List{}, {}};
    for (const std::string& expression : items_of(option.value, "|")) {
      const auto pattern = pattern_of(expression);
      if (!pattern) {
        return sink_.refuse(option, "only '.', '.*' and '|' of regular expressions are read",
                            "write name patterns as 'accelerator.fsdp.ignored' of the recipe");
      }
      auto& list = std::get<Node::List>(patterns.value);
      list.push_back(scalar_node(*pattern, true, option.value.where));
    }
    add_target(option, target, std::move(patterns));
  }

  const ShardingTarget* target(std::string_view name) const {
    const auto found =
        std::find_if(targets_.begin(), targets_.end(),
                     [&](const ShardingTarget& each) { return each.target == name; });
    return found == targets_.end() ? nullptr : &*found;
  }

  void set_default_stage() {
    if (!given_.enabled_by || target(kStage)) return;
    const char* stage = &given_.family == &kFsdpFamily ? "3"
                        : &given_.family == &kDeepSpeedFamily && !find("deepspeed_config_file")
                            ? "2"
                            : nullptr;
    if (stage) add_target(*given_.enabled_by, std::string(kStage), scalar_node(stage));
  }

  bool has_option(const std::string& target) const {
    return given_.recipe_has ? given_.recipe_has(target) : recipe_has(target);
  }

  void write_targets() {
    const ShardingTarget* stage = target(kStage);
    const bool whole = stage && stage->value.scalar()->text == "0";
    for (ShardingTarget& each : targets_) {
      if (!has_option(each.target)) {
        sink_.have_no_effect(*each.option, text("this version has no option '{}'", each.target));
      } else if (whole && each.target.starts_with("accelerator.fsdp.") && each.target != kStage) {
        sink_.have_no_effect(*each.option, "nothing is sharded at stage 0");
      } else {
        sink_.set(*each.option, each.target, std::move(each.value));
      }
    }
  }

  ShardingOptions given_;
  ShardingSink& sink_;
  std::vector<MatchedOption> options_;
  std::vector<ShardingTarget> targets_;
};

/// Empty sections are options, so that a misspelled one is reported.
void add_leaves(const Node& tree, const std::string& prefix, std::vector<ShardingOption>& out) {
  for (const Node::Entry& entry : *tree.map()) {
    const std::string name = prefix + entry.key;
    if (entry.node.map() && !entry.node.map()->empty()) {
      add_leaves(entry.node, name + '.', out);
    } else {
      out.push_back({name, entry.node, entry.where, shown_option(name, entry.node)});
    }
  }
}

}  // namespace

void apply_sharding(ShardingOptions given, ShardingSink& sink) {
  ShardingPass(std::move(given), sink).run();
}

std::vector<ShardingOption> deepspeed_file_options(const Node& tree) {
  std::vector<ShardingOption> out;
  if (tree.map()) add_leaves(tree, "", out);
  return out;
}

std::string shown_option(const std::string& name, const Node& value) {
  const Scalar* scalar = value.scalar();
  return scalar ? name + ": " + scalar->text : name;
}

}  // namespace accel
