// A recipe as text under construction: the parts that depend on the data, around those that do not.
#pragma once

#include <string>
#include <vector>

namespace accel {

struct RecipeDraft {
  std::string title;               ///< "Learns 'species' from iris.csv."
  std::string folder;              ///< what `vars.data` is; empty: the data is built in
  std::vector<std::string> model;  ///< lines of the section `model`
  std::string task;
  std::vector<std::string> train;      ///< lines of `data.train`
  std::vector<std::string> eval;       ///< lines of `data.eval`; empty: there is no eval data
  std::vector<std::string> transform;  ///< items of `data.transform`
  std::string lr = "0.001";
  std::string until = "10 epochs";
  int batch = 64;
  std::string eval_every = "1 epochs";
  std::string metric;
};

/// The recipe, with a comment wherever a newcomer would ask.
std::string to_recipe(const RecipeDraft& draft);

/// A text as a quoted YAML scalar that stands for itself: `${` in it is no reference.
std::string quoted(const std::string& text);

/// `name: [a, b]`, broken into lines of at most 96 columns when indented by `indent`.
std::vector<std::string> list_lines(const std::string& name, const std::vector<std::string>& items);

}  // namespace accel
