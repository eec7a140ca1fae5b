#include "core/recipe/interpolate.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/recipe/parse.h"

namespace accel {
namespace {

constexpr std::string_view kVars = "vars.";
constexpr std::string_view kEnv = "env:";
constexpr std::string_view kSecret = "secret:";
constexpr const char* kFacts[] = {"run.id", "run.dir", "recipe.dir", "git.sha"};

bool is_note(const std::string& key) {
  return key.starts_with("x-");
}
bool stays_as_written(const std::string& key) {
  return key == "vars" || key == "smoke" || is_note(key);
}

std::string escaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    // At the end, too: what is put behind it may start with a brace.
    const char next = i + 1 < text.size() ? text[i + 1] : '{';
    if (text[i] == '$' && (next == '$' || next == '{')) out += '$';
    out += text[i];
  }
  return out;
}

/// Where the reference that opens at `begin` ends, behind its brace; npos when it is never closed.
size_t reference_end(std::string_view text, size_t begin) {
  int open = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    if (text.substr(i, 2) == "${") ++open;
    if (text[i] == '}' && --open == 0) return i + 1;
  }
  return text.npos;
}

/// The source whose folder relative paths in environment variables belong to: none.
const std::shared_ptr<const Source>& working_folder() {
  static const auto source =
      std::make_shared<const Source>(Source{{}, {}, Source::Kind::kDefault, 0});
  return source;
}

/// Nodes, depth and bytes that a subtree adds.
struct Extent {
  size_t nodes = 1;
  size_t bytes = 0;
  int height = 0;
};

Extent extent_of(const Node& node) {
  Extent all;
  const auto add = [&all](const Node& inner) {
    const Extent e = extent_of(inner);
    all.nodes += e.nodes;
    all.bytes += e.bytes;
    all.height = std::max(all.height, e.height + 1);
  };
  if (const Scalar* scalar = node.scalar()) all.bytes = scalar->text.size();
  if (const Node::List* list = node.list()) std::for_each(list->begin(), list->end(), add);
  if (const Node::Map* map = node.map()) {
    for (const Node::Entry& entry : *map) add(entry.node);
  }
  return all;
}

/// Ends the work on a tree that references have blown up, or that is full of mistakes; reported.
struct Enough {};

class Interpolation {
 public:
  Interpolation(const Node& recipe, const References& references, Diagnostics& problems)
      : references_(references), problems_(problems) {
    const Node::Entry* vars = recipe.find("vars");
    if (vars) vars_ = vars->node;
  }

  void visit(Node& node, int depth) {
    spend({1, 0, 0}, node.where, depth);
    if (node.scalar()) {
      replace(node, depth);
    } else if (Node::List* list = node.list()) {
      for (Node& item : *list) visit(item, depth + 1);
    } else if (Node::Map* map = node.map()) {
      for (Node::Entry& entry : *map) {
        const bool kept =
            depth == 0 && path_.empty() ? stays_as_written(entry.key) : is_note(entry.key);
        if (!kept) visit(entry.node, depth + 1);
      }
    }
  }

 private:
  /// What a text with references becomes, piece by piece.
  struct Text {
    std::string text;
    std::string reference;  ///< the same with secrets left as references
    bool secret = false;
    std::shared_ptr<const Source> base;
  };

  void replace(Node& node, int depth) {
    const std::string text = node.scalar()->text;
    if (text.find('$') == text.npos) return;
    const int outer = std::exchange(depth_, depth);
    std::optional<Node> value = evaluate(text, node);
    depth_ = outer;
    if (!value) {
      problems_.spoil(node.where);
      if (problems_.crowded()) throw Enough{};
      return;
    }
    value->where = node.where;
    spend(extent_of(*value), node.where, depth);
    node = std::move(*value);
  }

  /// The value of a text written at `origin`; null: reported.
  std::optional<Node> evaluate(const std::string& text, const Node& origin) {
    if (text.starts_with("${") && reference_end(text, 0) == text.size()) {
      return refer(text.substr(2, text.size() - 3), origin);
    }
    Text out;
    bool good = true;
    for (size_t at = 0; at < text.size();) {
      const bool first = at == 0;
      if (text[at] != '$' || at + 1 == text.size() ||
          (text[at + 1] != '$' && text[at + 1] != '{')) {
        const size_t end = std::min(text.find('$', at + 1), text.size());
        literal(out, std::string_view(text).substr(at, end - at));
        at = end;
      } else if (text[at + 1] == '$') {
        literal(out, "$");
        at += 2;
      } else {
        const size_t end = reference_end(text, at);
        if (end == text.npos) {
          problems_.error(place(origin, text.substr(at)), "'${' is never closed",
                          "write '$$' for a dollar sign");
          return std::nullopt;
        }
        good = put_in(out, text.substr(at, end - at), origin, first) && good;
        at = end;
      }
    }
    if (!good) return std::nullopt;
    Node node = scalar_node(out.secret ? out.reference : out.text, true, origin.where);
    node.scalar()->base = out.base ? out.base : origin.scalar()->base;
    if (out.secret) node.scalar()->secret = std::make_shared<const std::string>(out.text);
    return node;
  }

  static void literal(Text& out, std::string_view piece) {
    out.text += piece;
    out.reference += escaped(piece);
  }

  /// Adds the text that `reference`, braces included, stands for. False: reported.
  bool put_in(Text& out, const std::string& reference, const Node& origin, bool first) {
    const std::optional<Node> value = refer(reference.substr(2, reference.size() - 3), origin);
    if (!value) return false;
    const Scalar* scalar = value->scalar();
    if (!scalar) {
      problems_.error(place(origin, reference),
                      accel::text("'{}' is {}, which cannot be inserted into a text", reference,
                                  value->describe()));
      return false;
    }
    out.text += scalar->secret ? *scalar->secret : scalar->text;
    out.reference += scalar->secret ? scalar->text : escaped(scalar->text);
    out.secret = out.secret || scalar->secret;
    if (first) out.base = scalar->base;
    if (out.text.size() + out.reference.size() > kMaxRecipeBytes) too_large(origin.where);
    return true;
  }

  /// What the reference `body` (without its braces) stands for; null: reported.
  std::optional<Node> refer(const std::string& body, const Node& origin) {
    if (body.starts_with(kVars)) return variable(body, origin);
    if (body.starts_with(kEnv)) return environment(body, origin);
    if (body.starts_with(kSecret)) return secret(body, origin);
    if (std::find(std::begin(kFacts), std::end(kFacts), body) != std::end(kFacts)) {
      const auto value = references_.fact ? references_.fact(body) : std::nullopt;
      if (value) return from_outside(scalar_node(*value, true, origin.where), body);
      problems_.error(place(origin, "${" + body + "}"),
                      accel::text("'{}' is not known here", body));
      return std::nullopt;
    }
    std::vector<std::string> names(std::begin(kFacts), std::end(kFacts));
    for (const std::string& name : variable_names()) names.push_back("vars." + name);
    std::string hint = did_you_mean(body, names);
    if (const Node::Entry* entry = vars_.find(body))
      hint = accel::text("write '${vars.{}}'", entry->key);
    if (hint.empty()) hint = accel::text("write '${vars.{}}' or '${env:{}}'", body, body);
    problems_.error(place(origin, "${" + body + "}"), accel::text("nothing is named '{}'", body),
                    hint);
    return std::nullopt;
  }

  std::optional<Node> environment(const std::string& body, const Node& origin) {
    const size_t dash = body.find(":-", kEnv.size());
    const std::string name =
        body.substr(kEnv.size(), dash == body.npos ? dash : dash - kEnv.size());
    std::optional<std::string> value =
        references_.environment ? references_.environment(name) : std::nullopt;
    if (dash != body.npos && (!value || value->empty())) {
      Node fallback = origin;
      fallback.scalar()->text = body.substr(dash + 2);
      std::optional<Node> out = evaluate(fallback.scalar()->text, fallback);
      // A number given as the default may be a number.
      if (out && out->scalar()) out->scalar()->quoted = out->scalar()->text.empty();
      return out;
    }
    if (!value) {
      problems_.error(place(origin, "${" + body + "}"),
                      accel::text("the environment has no '{}'", name),
                      accel::text("set it, or give a default: '${env:{}:-...}'", name));
      return std::nullopt;
    }
    Node out = scalar_node(*value, value->empty(), origin.where);
    out.scalar()->base = working_folder();
    return from_outside(std::move(out), body);
  }

  /// `value` when a recipe, which is UTF-8, can hold it; null: reported.
  std::optional<Node> from_outside(Node value, const std::string& body) {
    if (is_utf8(value.scalar()->text)) return value;
    const std::string reference = "${" + body + "}";
    problems_.error(place(value, reference),
                    accel::text("the value of '{}' is not UTF-8", reference));
    return std::nullopt;
  }

  std::optional<Node> secret(const std::string& body, const Node& origin) {
    const std::string name = body.substr(kSecret.size());
    const std::optional<std::string> value =
        references_.secret ? references_.secret(name) : std::nullopt;
    if (!value) {
      problems_.error(place(origin, "${" + body + "}"),
                      accel::text("there is no secret '{}'", name),
                      accel::text("set the environment variable '{}'", name));
      return std::nullopt;
    }
    Node out = scalar_node("${" + body + "}", true, origin.where);
    out.scalar()->secret = std::make_shared<const std::string>(*value);
    return out;
  }

  std::optional<Node> variable(const std::string& name, const Node& origin) {
    const auto known = known_.find(name);
    if (known != known_.end()) {
      if (known->second) spend(extent_of(*known->second), origin.where, depth_);
      return known->second;
    }
    const auto open = std::find(path_.begin(), path_.end(), name);
    if (open != path_.end()) {
      std::string round;
      for (auto it = open; it != path_.end(); ++it) round += *it + " -> ";
      problems_.error(place(origin, "${" + name + "}"),
                      accel::text("variables refer to each other: {}{}", round, name));
      return std::nullopt;
    }
    if (path_.size() >= static_cast<size_t>(kMaxDepth)) {
      problems_.error(origin.where,
                      accel::text("variables are nested more than {} deep", kMaxDepth));
      return std::nullopt;
    }
    path_.push_back(name);
    std::optional<Node> value = walk(name, origin);
    path_.pop_back();
    return known_[name] = std::move(value);
  }

  /// The variable's value with its own references replaced; null: reported.
  std::optional<Node> walk(const std::string& name, const Node& origin) {
    const Node* at = &vars_;
    Node settled;
    for (size_t begin = kVars.size(); begin <= name.size();) {
      const size_t end = std::min(name.find('.', begin), name.size());
      at = step(*at, name.substr(begin, end - begin));
      begin = end + 1;
      if (!at) {
        const std::string bare = name.substr(kVars.size());
        problems_.error(place(origin, "${" + name + "}"),
                        accel::text("there is no variable '{}'", bare),
                        did_you_mean(bare, variable_names()));
        return std::nullopt;
      }
      if (!at->scalar() && begin <= name.size()) continue;
      Node inner = *at;
      const size_t before = problems_.size();
      visit(inner, depth_);
      if (problems_.size() != before) return std::nullopt;
      settled = std::move(inner);
      at = &settled;
    }
    Scalar* scalar = settled.scalar();
    if (scalar && !scalar->base) scalar->base = settled.where.source;
    return settled;
  }

  static const Node* step(const Node& node, const std::string& part) {
    if (const Node::Entry* entry = node.find(part)) return &entry->node;
    const Node::List* list = node.list();
    if (!list || part.empty() || part.size() > 5) return nullptr;
    if (part.find_first_not_of("0123456789") != part.npos) return nullptr;
    const size_t index = std::stoul(part);
    return index < list->size() ? &(*list)[index] : nullptr;
  }

  std::vector<std::string> variable_names() const {
    std::vector<std::string> names;
    if (!vars_.map()) return names;
    for (const Node::Entry& entry : *vars_.map()) names.push_back(entry.key);
    return names;
  }

  /// The place of `reference` in the line where `origin` starts, or else of `origin`.
  static Span place(const Node& origin, const std::string& reference) {
    Span where = origin.where;
    if (!where.source || where.line < 1) return where;
    const std::string& text = where.source->text;
    size_t line = 0;
    for (int i = 1; i < where.line && line != text.npos; ++i) {
      const size_t end = text.find('\n', line);
      line = end == text.npos ? end : end + 1;
    }
    if (line == text.npos) return where;
    const size_t found = text.find(reference, line + static_cast<size_t>(where.column) - 1);
    if (found < text.find('\n', line)) where.column = static_cast<int>(found - line) + 1;
    return where;
  }

  void spend(const Extent& extent, const Span& where, int depth) {
    nodes_ += extent.nodes;
    bytes_ += extent.bytes;
    if (nodes_ > 2 * kMaxNodes || bytes_ > kMaxExpandedBytes) too_large(where);
    if (depth + extent.height > kMaxDepth) {
      report_too_deep(where, problems_);
      throw Enough{};
    }
  }

  [[noreturn]] void too_large(const Span& where) {
    problems_.error(where, "references make the recipe too large");
    throw Enough{};
  }

  const References& references_;
  Diagnostics& problems_;
  Node vars_;
  std::map<std::string, std::optional<Node>> known_;
  std::vector<std::string> path_;  ///< variables being resolved
  int depth_ = 0;                  ///< of the value whose references are being replaced
  size_t nodes_ = 0;
  size_t bytes_ = 0;
};

void escape_scalars(Node& node, bool top) {
  if (Scalar* scalar = node.scalar()) {
    if (!scalar->secret) scalar->text = escaped(scalar->text);
  } else if (Node::List* list = node.list()) {
    for (Node& item : *list) escape_scalars(item, false);
  } else if (Node::Map* map = node.map()) {
    for (Node::Entry& entry : *map) {
      if (!(top ? stays_as_written(entry.key) : is_note(entry.key))) {
        escape_scalars(entry.node, false);
      }
    }
  }
}

}  // namespace

void interpolate(Node& recipe, const References& references, Diagnostics& problems) {
  try {
    Interpolation(recipe, references, problems).visit(recipe, 0);
  } catch (const Enough&) {
    // Reported; what is left as written is not read any further by a caller that checks.
  }
}

Node escape_references(Node recipe) {
  escape_scalars(recipe, true);
  return recipe;
}

}  // namespace accel
