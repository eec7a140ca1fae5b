// A new plugin, made of the example of its kind.
#pragma once

#include <string>
#include <vector>

namespace accel {

/// Kinds of which there is an example in `examples`, sorted.
std::vector<std::string> example_kinds(const std::string& examples);

struct NewPlugin {
  std::string kind;
  std::string name;     ///< "vendor/name"
  std::string folder;   ///< must not be there yet
  std::string program;  ///< path of the accel-run that its test.sh takes
};

/// Writes the folder with all that the example of the kind has, under the new name. Returns the
/// files. Throws Error (recipe) for a kind or a name that will not do.
std::vector<std::string> new_plugin(const std::string& examples, const NewPlugin& wanted);

/// "my_net" and "MyNet" of "acme/my-net": what files and classes of such a plugin are called.
std::string identifier_of(const std::string& name);
std::string class_name_of(const std::string& name);

}  // namespace accel
