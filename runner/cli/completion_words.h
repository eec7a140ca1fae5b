// What can be typed after accel-run: gathered from the parser and the recipe's declaration.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace accel {

struct CompletionVerb {
  std::string name;  ///< "checkpoint convert" for a verb of a group
  std::string help;
  std::vector<std::pair<std::string, std::string>> flags = {};  ///< {"--config", "where to run"}
  std::map<std::string, std::vector<std::string>> values = {};  ///< of flags that take one of a few
  std::vector<std::string> words = {};  ///< that may stand for its arguments: kinds, shells
  bool takes_recipe = false;            ///< and so overrides
};

struct CompletionWords {
  std::vector<CompletionVerb> verbs;
  std::vector<std::pair<std::string, std::string>> keys;   ///< {"optimizer.lr", "Learning rate."}
  std::map<std::string, std::vector<std::string>> values;  ///< of keys: {"model.type", {"mlp", ..}}
  std::vector<std::string> recipes;                        ///< "builtin:quickstart"
};

/// All verbs of `app`, every key that some recipe may hold, and the names of components.
CompletionWords completion_words(const CLI::App& app);

}  // namespace accel
