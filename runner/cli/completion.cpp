// completion: a script for a shell, from the parser and the declarations of recipes.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "runner/cli/cli.h"
#include "runner/cli/load_recipe.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct CompletionVerb {
  std::string name;  ///< "checkpoint convert" for a verb of a group
  std::string help;
  std::vector<std::pair<std::string, std::string>> flags = {};  ///< {"--config", "where to run"}
  std::map<std::string, std::vector<std::string>> values = {};  ///< of flags with an enumeration
  std::vector<std::string> words = {};  ///< candidates for its arguments: kinds, shells
  bool takes_recipe = false;            ///< and so overrides
};

struct CompletionWords {
  std::vector<CompletionVerb> verbs;
  std::vector<std::pair<std::string, std::string>> keys;   ///< {"optimizer.lr", "Learning rate."}
  std::map<std::string, std::vector<std::string>> values;  ///< of keys: {"model.type", {"mlp", ..}}
  std::vector<std::string> recipes;                        ///< "builtin:quickstart"
};

/// "no", "fp16" of a type that ends with "{no,fp16}".
std::vector<std::string> listed_in(const std::string& type) {
  std::vector<std::string> out;
  const size_t begin = type.find('{'), end = type.rfind('}');
  if (begin == type.npos || end == type.npos) return out;
  std::stringstream names(type.substr(begin + 1, end - begin - 1));
  for (std::string name; std::getline(names, name, ',');) out.push_back(name);
  return out;
}

/// Adds the options of `app` to the verb.
void add_options(const CLI::App& app, CompletionVerb& verb) {
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string> values = listed_in(option->get_type_name());
    if (option->get_lnames().empty()) {
      verb.takes_recipe = verb.takes_recipe || option->get_name() == "overrides";
      verb.words.insert(verb.words.end(), values.begin(), values.end());
      continue;
    }
    if (option->get_group().empty() || option == app.get_version_ptr()) continue;
    const std::string flag = "--" + option->get_lnames().back();
    const auto is_same = [&](const auto& known) { return known.first == flag; };
    if (std::any_of(verb.flags.begin(), verb.flags.end(), is_same)) continue;
    verb.flags.emplace_back(flag, option->get_description());
    if (!values.empty()) verb.values[flag] = values;
  }
}

CompletionVerb verb_of(const CLI::App& app, const std::string& name) {
  CompletionVerb verb{.name = name, .help = app.get_description()};
  add_options(app, verb);
  return verb;
}

/// Collects every key below a prefix once.
class KeyCollector {
 public:
  explicit KeyCollector(CompletionWords& out) : out_(out) {
    for (const CatalogIndex* catalog : components().all()) catalogs_[catalog->kind()] = catalog;
  }

  void add(const std::vector<FieldInfo>& fields, const std::string& prefix) {
    for (const FieldInfo& field : fields) {
      if (!field.handled) add(field, prefix + field.name);
    }
  }

 private:
  void add(const FieldInfo& field, const std::string& key) {
    const Json json = Json::parse("{" + field.json + "}", nullptr, false);
    const bool list = json.is_object() && json.value("type", Json()) == "array";
    if (!field.kind.empty() && !list) {
      add_components(*catalogs_.at(field.kind), key);
    } else if (field.fields.empty()) {
      enter(key, field.help);
      add_values(key, json);
    }
    if (!list) add(field.fields, key + ".");
  }

  void add_components(const CatalogIndex& catalog, const std::string& key) {
    enter(key + ".type", "Which " + catalog.kind() + ".");
    out_.values[key + ".type"] = catalog.names();
    // A component nested in one of its own kind would recurse without end.
    if (!open_.insert(catalog.kind()).second) return;
    for (const auto& [name, info] : catalog.items()) add(info.fields, key + ".");
    open_.erase(catalog.kind());
  }

  void enter(const std::string& key, const std::string& help) {
    if (entered_.insert(key).second) out_.keys.emplace_back(key, help);
  }

  void add_values(const std::string& key, const Json& json) {
    if (!json.is_object()) return;
    if (json.value("type", Json()) == "boolean") out_.values[key] = {"true", "false"};
    const auto names = json.find("enum");
    if (names == json.end()) return;
    for (const Json& name : *names) {
      if (name.is_string()) out_.values[key].push_back(name.get<std::string>());
    }
  }

  CompletionWords& out_;
  std::map<std::string, const CatalogIndex*> catalogs_;
  std::set<std::string> entered_;
  std::set<std::string> open_;  ///< kinds whose options are being added
};

std::vector<std::string> builtin_recipes() {
  std::vector<std::string> out;
  std::error_code missing;
  for (const auto& entry : fs::recursive_directory_iterator(builtin_folder(), missing)) {
    if (entry.path().extension() != ".yaml") continue;
    const fs::path name = fs::relative(entry.path(), builtin_folder()).replace_extension();
    out.push_back("builtin:" + name.string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// All verbs of `app`, every key of recipes, and the names of components.
CompletionWords completion_words(const CLI::App& app) {
  CompletionWords out;
  std::vector<std::string> kinds;
  for (const CatalogIndex* catalog : components().all()) kinds.push_back(catalog->kind());
  for (const CLI::App* verb : app.get_subcommands({})) {
    out.verbs.push_back(verb_of(*verb, verb->get_name()));
    if (verb->get_name() == "list" || verb->get_name() == "explain") out.verbs.back().words = kinds;
    const auto group = out.verbs.size() - 1;
    for (const CLI::App* inner : verb->get_subcommands({})) {
      out.verbs[group].words.push_back(inner->get_name());
      out.verbs.push_back(verb_of(*inner, verb->get_name() + " " + inner->get_name()));
    }
  }
  // The options of the program may follow every verb.
  for (CompletionVerb& verb : out.verbs) add_options(app, verb);
  KeyCollector(out).add(RecipeOptions::schema().info(), "");
  out.recipes = builtin_recipes();
  return out;
}

/// Single quotes for POSIX shells.
std::string quoted_word(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// Single quotes for fish, which escapes with a backslash.
std::string fish_word(const std::string& text) {
  std::string out = "'";
  for (const char c : text)
    out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

std::string joined_words(const std::vector<std::string>& words) {
  return joined(words, " ");
}

std::vector<std::string> flag_names(const CompletionVerb& verb) {
  std::vector<std::string> out;
  for (const auto& [flag, help] : verb.flags) out.push_back(flag);
  return out;
}

std::vector<std::string> verb_names(const CompletionWords& words) {
  std::vector<std::string> out;
  for (const CompletionVerb& verb : words.verbs) {
    if (verb.name.find(' ') == verb.name.npos) out.push_back(verb.name);
  }
  return out;
}

/// "optimizer.lr=", ...
std::vector<std::string> open_keys(const CompletionWords& words) {
  std::vector<std::string> out;
  for (const auto& [key, help] : words.keys) out.push_back(key + "=");
  return out;
}

/// "model.type=mlp", ...
std::vector<std::string> whole_overrides(const CompletionWords& words) {
  std::vector<std::string> out;
  for (const auto& [key, values] : words.values) {
    for (const std::string& value : values) out.push_back(key + "=" + value);
  }
  return out;
}

/// A `case` that maps a verb to words, in bash and zsh.
template <class WordsOf>
std::string verb_cases(const CompletionWords& words, const WordsOf& words_of) {
  std::string out = "  case $1 in\n";
  for (const CompletionVerb& verb : words.verbs) {
    const std::string found = joined_words(words_of(verb));
    if (!found.empty()) {
      out += "    " + quoted_word(verb.name) + ") echo " + quoted_word(found) + " ;;\n";
    }
  }
  return out + "  esac\n";
}

/// Functions that bash and zsh share. They print words; `_accel_run_offer` takes the current word,
/// then the words before it.
std::string shared_functions(const CompletionWords& words) {
  std::string out = "_accel_run_flags() {\n";
  out += verb_cases(words, [](const CompletionVerb& verb) { return flag_names(verb); });
  out += "}\n_accel_run_words() {\n";
  out += verb_cases(words, [](const CompletionVerb& verb) { return verb.words; });
  out += "}\n_accel_run_flag_values() {\n  case \"$1 $2\" in\n";
  for (const CompletionVerb& verb : words.verbs) {
    for (const auto& [flag, values] : verb.values) {
      out += "    " + quoted_word(verb.name + " " + flag) + ") echo " +
             quoted_word(joined_words(values)) + " ;;\n";
    }
  }
  std::vector<std::string> recipe_verbs;
  for (const CompletionVerb& verb : words.verbs) {
    if (verb.takes_recipe) recipe_verbs.push_back(quoted_word(verb.name));
  }
  std::string alternatives;
  for (const std::string& verb : recipe_verbs) {
    alternatives += (alternatives.empty() ? "" : "|") + verb;
  }
  out += "  esac\n}\n_accel_run_verbs=" + quoted_word(joined_words(verb_names(words))) + "\n";
  out += "_accel_run_recipes=" + quoted_word(joined_words(words.recipes)) + "\n";
  out += "_accel_run_keys=" + quoted_word(joined_words(open_keys(words))) + "\n";
  out += "_accel_run_values=" + quoted_word(joined_words(whole_overrides(words))) + "\n";
  // The verb `run` may be omitted.
  out += R"sh(_accel_run_offer() {
  local current=$1 verb='' last='' count=0 word
  shift
  for word in "$@"; do
    if [[ $word != -* ]]; then
      if [[ -z $verb ]]; then
        if [[ " $_accel_run_verbs " == *" $word "* ]]; then verb=$word
        else verb=run; count=1; fi
      elif [[ $count == 0 && ( $verb == checkpoint || $verb == config ) ]]; then verb="$verb $word"
      else count=$((count + 1)); fi
    fi
    last=$word
  done
  if [[ -z $verb ]]; then
    echo "$_accel_run_verbs $_accel_run_recipes --version --help"
    return
  fi
  local values=''
  [[ $last == -* ]] && values=$(_accel_run_flag_values "$verb" "$last")
  if [[ -n $values ]]; then echo "$values"; return; fi
  if [[ $current == -* ]]; then echo "$(_accel_run_flags "$verb") --help"; return; fi
  _accel_run_words "$verb"
  case $verb in
)sh";
  out += "    " + alternatives + ")\n";
  out += R"sh(      if [[ $current == *=* ]]; then echo "$_accel_run_values"
      elif [[ $count == 0 ]]; then echo "$_accel_run_recipes"
      else echo "$_accel_run_keys"; fi ;;
  esac
}
)sh";
  return out;
}

std::string bash_script(const CompletionWords& words) {
  return "# bash completion of accel-run: source <(accel-run completion bash)\n" +
         shared_functions(words) + R"sh(_accel_run() {
  local line=${COMP_LINE:0:COMP_POINT} before
  local current=${line##*[[:space:]]}
  read -ra before <<< "${line%"$current"}"
  COMPREPLY=($(compgen -W "$(_accel_run_offer "$current" "${before[@]:1}")" -- "$current"))
  if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then
    type compopt &> /dev/null && compopt -o nospace 2> /dev/null
  fi
  # Bash splits words at = and :, and completes only the last piece.
  local head=${current%"${current##*[=:]}"}
  COMPREPLY=("${COMPREPLY[@]#"$head"}")
  [[ ${COMPREPLY[0]} == '' ]] && COMPREPLY=()
}
complete -o default -F _accel_run accel-run
)sh";
}

std::string zsh_script(const CompletionWords& words) {
  return "#compdef accel-run\n# zsh completion of accel-run: source <(accel-run completion zsh), "
         "or "
         "keep it as _accel-run in a folder of $fpath\n" +
         shared_functions(words) + R"sh(_accel_run() {
  local -a offered open whole
  offered=(${=$(_accel_run_offer "$words[CURRENT]" "${(@)words[2,CURRENT-1]}")})
  open=(${(M)offered:#*=})
  whole=(${offered:#*=})
  (( $#open )) && compadd -S '' -a open
  (( $#whole )) && compadd -a whole
  _files
}
if [[ $funcstack[1] == _accel-run ]]; then _accel_run "$@"; else compdef _accel_run accel-run; fi
)sh";
}

std::string fish_line(const std::string& condition, const std::string& word,
                      const std::string& help) {
  return "complete -c accel-run -n " + fish_word(condition) + " -a " + fish_word(word) +
         (help.empty() ? "" : " -d " + fish_word(help)) + "\n";
}

/// True in fish where the words so far begin with the verb.
std::string fish_condition(const std::string& verb) {
  std::string out;
  std::string rest = verb;
  for (size_t space; !rest.empty(); rest = space == rest.npos ? "" : rest.substr(space + 1)) {
    space = rest.find(' ');
    out += (out.empty() ? "" : "; and ") + std::string("__fish_seen_subcommand_from ") +
           rest.substr(0, space);
  }
  return out;
}

std::string fish_script(const CompletionWords& words) {
  std::string out = "# fish completion of accel-run: accel-run completion fish | source\n";
  for (const CompletionVerb& verb : words.verbs) {
    if (verb.name.find(' ') == verb.name.npos) {
      out += fish_line("__fish_use_subcommand", verb.name, verb.help);
    }
    const std::string here = fish_condition(verb.name);
    for (const std::string& word : verb.words) out += fish_line(here, word, "");
    for (const auto& [flag, help] : verb.flags) {
      const auto values = verb.values.find(flag);
      out += "complete -c accel-run -n " + fish_word(here) + " -l " + flag.substr(2);
      if (values != verb.values.end()) {
        out += " -x -a " + fish_word(joined_words(values->second));
      }
      out += " -d " + fish_word(help) + "\n";
    }
  }
  for (const std::string& recipe : words.recipes) out += fish_line("true", recipe, "");
  std::vector<std::string> others;
  for (const CompletionVerb& verb : words.verbs) {
    if (!verb.takes_recipe && verb.name.find(' ') == verb.name.npos) others.push_back(verb.name);
  }
  // A recipe precedes its overrides, and `run` may be omitted.
  const std::string recipe =
      "test (count (commandline -opc)) -ge 2; and not "
      "__fish_seen_subcommand_from " +
      joined_words(others);
  for (const auto& [key, help] : words.keys) {
    const auto values = words.values.find(key);
    if (values == words.values.end()) {
      out += fish_line(recipe, key + "=", help);
      continue;
    }
    for (const std::string& value : values->second) {
      out += fish_line(recipe, key + "=" + value, help);
    }
  }
  return out;
}

/// A self-contained script for `shell`: bash, zsh or fish.
std::string completion_script(const std::string& shell, const CompletionWords& words) {
  if (shell == "fish") return fish_script(words);
  return shell == "zsh" ? zsh_script(words) : bash_script(words);
}

}  // namespace

void add_completion_verb(VerbTable& verbs) {
  const auto shell = std::make_shared<std::string>();
  verbs
      .add("completion", "print a shell's completion script of verbs, flags and recipe keys",
           [shell, &verbs] {
             std::cout << completion_script(*shell, completion_words(verbs.app()));
             return ExitCode::kDone;
           })
      .add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

}  // namespace accel
