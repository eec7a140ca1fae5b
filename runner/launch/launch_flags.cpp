#include "runner/launch/launch_flags.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "runner/launch/launch_table.h"

namespace accel {
namespace {

/// A word that begins with dashes, taken apart.
struct FlagWord {
  std::string name;                  ///< with underscores, without dashes
  std::optional<std::string> value;  ///< behind '='
};

FlagWord take_apart(const std::string& word) {
  const size_t equals = word.find('=');
  FlagWord out;
  out.name = word.substr(0, equals);
  out.name.erase(0, out.name.starts_with("--") ? 2 : 1);
  std::replace(out.name.begin(), out.name.end(), '-', '_');
  if (equals != word.npos) out.value = word.substr(equals + 1);
  return out;
}

class LaunchReader {
 public:
  LaunchReader(const std::vector<std::string>& words, int first, Diagnostics& problems)
      : words_(words), first_(first), layer_(problems) {}

  LaunchLine read() {
    while (at_ < words_.size() && words_[at_].starts_with('-')) read_flag();
    if (at_ < words_.size()) {
      line_.recipe = words_[at_++];
      line_.first_override = first_ + static_cast<int>(at_);
      line_.overrides.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
      check_overrides();
    } else if (!line_.help) {
      layer_.problems().error({}, "'launch' wants a recipe",
                              "write: accel-run launch [flags] RECIPE [key=value ...]");
    }
    line_.flags = layer_.take();
    line_.warnings = layer_.take_warnings();
    return std::move(line_);
  }

 private:
  /// A place in the words of a flag: that of its value, or of itself.
  Span place(size_t index, const std::string& text, size_t column) const {
    const int number = first_ + static_cast<int>(index);
    const auto source =
        std::make_shared<const Source>(Source{text, text, Source::Kind::kArgument, number});
    return {source, 1, static_cast<int>(column)};
  }

  void read_flag() {
    const size_t index = at_++;
    const std::string& written = words_[index];
    FlagWord word = take_apart(written);
    const LaunchFlag* flag = find_launch_flag(word.name);
    if (!flag || written.starts_with("--") != (word.name.size() > 1)) {
      const std::string near = closest(word.name, launch_flag_names());
      layer_.problems().error(place(index, written, 1), "'launch' has no flag '" + written + "'",
                              near.empty() ? "" : "did you mean '--" + near + "'?");
      return;
    }
    std::string text = written;
    if (flag->takes_value && !word.value) {
      if (at_ == words_.size() || words_[at_].starts_with("--")) {
        layer_.problems().error(place(index, written, 1), "'" + written + "' wants a value");
        return;
      }
      word.value = words_[at_++];
      text += " " + *word.value;
    } else if (!flag->takes_value && word.value) {
      layer_.problems().error(place(index, written, 1),
                              "'" + written.substr(0, written.find('=')) + "' takes no value");
      return;
    }
    if (word.name.starts_with("aws_")) text = written.substr(0, written.find('='));  // a secret
    const size_t column = flag->takes_value && text != written.substr(0, written.find('='))
                              ? text.size() - word.value->size() + 1
                              : 1;
    take(*flag, scalar_node(word.value.value_or("true"), false, place(index, text, column)), text);
  }

  void take(const LaunchFlag& flag, const Node& value, const std::string& text) {
    const std::string_view name = flag.word.name;
    if (name == "config_file" || name == "config") {
      line_.config_file = value.scalar()->text;
    } else if (name == "help" || name == "h") {
      line_.help = true;
    } else {
      if (name == "cpu") line_.on_cpu = true;
      layer_.apply(flag.word, value, text);
    }
  }

  void check_overrides() {
    for (size_t i = at_; i < words_.size(); ++i) {
      if (!words_[i].starts_with('-')) continue;
      layer_.problems().error(place(i, words_[i], 1),
                              "'" + words_[i] + "' stands behind the recipe",
                              "flags of 'launch' come before the recipe, 'key=value' behind it");
    }
  }

  const std::vector<std::string>& words_;
  int first_;
  size_t at_ = 0;
  WordLayer layer_;
  LaunchLine line_;
};

}  // namespace

LaunchLine read_launch_line(const std::vector<std::string>& words, int first,
                            Diagnostics& problems) {
  return LaunchReader(words, first, problems).read();
}

std::string launch_help() {
  std::string out =
      "accel-run launch [flags] RECIPE [key=value ...]\n\n"
      "Trains as 'accel-run RECIPE' does, with the flags of 'accelerate launch', spelt with "
      "hyphens\n"
      "or underscores. They win over the recipe, which wins over the config file: the one named, "
      "or\n"
      "else the one that 'accelerate config' writes.\n\n"
      "  --config_file FILE                     a config, Accelerate's or accel-run's\n";
  for (const LaunchFlag& flag : launch_flags()) {
    using Effect = ForeignWord::Effect;
    const Effect effect = flag.word.effect;
    if (effect != Effect::kSets && effect != Effect::kTurnsOn && effect != Effect::kPrecision) {
      continue;
    }
    std::string line = "  --" + std::string(flag.word.name) + (flag.takes_value ? " VALUE" : "");
    line.append(line.size() < 41 ? 41 - line.size() : 1, ' ');
    out.append(line).append(flag.word.target).append("\n");
  }
  return out + "\nEvery other flag of Accelerate's is refused with the reason.\n";
}

}  // namespace accel
