#include "runner/cli/completion.h"

#include <algorithm>
#include <set>

namespace accel {
namespace {

/// In quotes that every one of the shells reads alike.
std::string quoted_word(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// Fish has another way to put a quote between quotes.
std::string fish_word(const std::string& text) {
  std::string out = "'";
  for (const char c : text)
    out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

std::string joined_words(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
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

/// What both shells share: words by verb, and what to offer at a place of the line. The functions
/// print words; `_accel_run_offer` takes the words before the current one, and that.
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
  // The verb `run` may be left out.
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
  # Bash takes = and : for ends of words, and wants only what comes behind the last one.
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
  // A recipe stands before its overrides, and `run` may be left out.
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

}  // namespace

std::string completion_script(const std::string& shell, const CompletionWords& words) {
  if (shell == "fish") return fish_script(words);
  return shell == "zsh" ? zsh_script(words) : bash_script(words);
}

}  // namespace accel
