#include "runner/submit/spec_nodes.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "core/recipe/scalar.h"

namespace accel {
namespace {

/// Words that YAML 1.1 reads as a boolean or null.
constexpr std::string_view kOtherTypes[] = {"y",   "n",    "yes",   "no",   "on",
                                            "off", "true", "false", "null", "~"};

bool is_plain(const std::string& text) {
  if (text.empty() || !std::isalpha(static_cast<unsigned char>(text[0]))) return false;
  const auto is_safe = [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("-_./").find(static_cast<char>(c)) != std::string_view::npos;
  };
  const std::string lower = ascii_lower(text);
  return std::all_of(text.begin(), text.end(), is_safe) &&
         std::find(std::begin(kOtherTypes), std::end(kOtherTypes), lower) == std::end(kOtherTypes);
}

using Json = nlohmann::ordered_json;

Json json_of(const Node& node) {
  if (const Scalar* scalar = node.scalar()) {
    if (scalar->quoted) return scalar->text;
    if (scalar->text == "true" || scalar->text == "false") return scalar->text == "true";
    if (const auto integer = parse_integer(*scalar).value) return *integer;
    if (const auto real = parse_number(*scalar).value) return *real;
    return scalar->text;
  }
  if (const Node::List* list = node.list()) {
    Json out = Json::array();
    for (const Node& item : *list) out.push_back(json_of(item));
    return out;
  }
  if (!node.map()) return nullptr;
  Json out = Json::object();
  for (const Node::Entry& entry : *node.map()) out[entry.key] = json_of(entry.node);
  return out;
}

}  // namespace

Node word(const std::string& text) {
  return scalar_node(text, !is_plain(text));
}

Node number(int64_t value) {
  return scalar_node(std::to_string(value));
}

Node yes_no(bool value) {
  return scalar_node(value ? "true" : "false");
}

Node items(std::vector<Node> nodes) {
  return {Node::List(std::move(nodes)), {}};
}

Node words(const std::vector<std::string>& texts) {
  Node::List list;
  for (const std::string& text : texts) list.push_back(word(text));
  return {std::move(list), {}};
}

Node section(std::initializer_list<std::pair<const char*, Node>> entries) {
  Node::Map map;
  for (const auto& [key, value] : entries) {
    if (!value.null()) map.push_back({key, {}, value});
  }
  return {std::move(map), {}};
}

void merge_spec(Node& base, const Node& layer) {
  if (base.map() && layer.map()) {
    for (const Node::Entry& entry : *layer.map()) {
      Node::Entry* own = base.find(entry.key);
      if (own) {
        merge_spec(own->node, entry.node);
      } else {
        base.map()->push_back(entry);
      }
    }
  } else if (base.list() && layer.list()) {
    base.list()->insert(base.list()->end(), layer.list()->begin(), layer.list()->end());
  } else {
    base = layer;
  }
}

std::string to_json(const Node& node) {
  return json_of(node).dump(2) + "\n";
}

}  // namespace accel
