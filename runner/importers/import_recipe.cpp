#include "runner/importers/import_recipe.h"

#include <algorithm>

#include "core/error.h"
#include "core/interpolate.h"

namespace accel {
namespace {

/// Sections as people write them: what and on which data first.
constexpr const char* kOrder[] = {"name", "vars",       "seed",      "model",    "task",
                                  "data", "optimizer",  "scheduler", "train",    "accelerator",
                                  "eval", "checkpoint", "callbacks", "trackers", "log"};

size_t rank_of(const std::string& key) {
  const auto found = std::find(std::begin(kOrder), std::end(kOrder), key);
  return static_cast<size_t>(found - std::begin(kOrder));
}

std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out.append(out.empty() ? "" : ", ").append(word);
  return out;
}

}  // namespace

const std::vector<ImportPeer>& import_peers() {
  static const std::vector<ImportPeer> peers = {kTorchtune, kAxolotl, kLlamaFactory, kTrainer};
  return peers;
}

Imported import_recipe(const Node& tree, const std::string& path, const std::string& peer) {
  Imported out;
  std::vector<std::string> names;
  for (const ImportPeer& each : import_peers()) {
    names.emplace_back(each.name);
    if (peer.empty() ? !tree.map() || !each.recognises(tree) : peer != each.name) continue;
    out.peer = each.name;
    each.read(tree, out);
    std::stable_sort(
        out.recipe.map()->begin(), out.recipe.map()->end(),
        [](const Node::Entry& a, const Node::Entry& b) { return rank_of(a.key) < rank_of(b.key); });
    std::stable_sort(
        out.left.begin(), out.left.end(),
        [](const ImportNote& a, const ImportNote& b) { return a.where.line < b.where.line; });
    return out;
  }
  throw Error(ExitCode::kRecipe, "'" + path + "' is no config of a trainer that is known",
              "say whose it is with '--from': " + listed(names) + " or accelerate");
}

std::string imported_text(const Imported& imported) {
  return to_yaml(imported.recipe, [](const Node& value) {
    const Source* source = value.where.source.get();
    return source ? source->path + ':' + std::to_string(value.where.line) : std::string();
  });
}

std::string import_account(const Imported& imported) {
  std::string out = "in the recipe: " + listed(imported.taken) + '\n';
  if (!imported.idle.empty()) out += "ask for nothing here: " + listed(imported.idle) + '\n';
  if (!imported.left.empty()) out += "not in the recipe:\n";
  for (const ImportNote& note : imported.left) {
    out +=
        "  line " + std::to_string(note.where.line) + ": " + note.key + ": " + note.reason + '\n';
  }
  if (!imported.remarks.empty()) out += "note:\n";
  for (const std::string& remark : imported.remarks) out += "  " + remark + '\n';
  return out;
}

}  // namespace accel
