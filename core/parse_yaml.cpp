#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "core/parse.h"

namespace accel {
namespace {

/// Ends a parse whose problem is already reported.
struct Stop {};

/// A subtree and what an alias to it would add.
struct Branch {
  Node node;
  size_t nodes = 1;
  int height = 0;
};

/// Turns yaml-cpp's events into a tree, so that every value and key has its place, quotes are
/// known, and nothing is built beyond the limits.
class YamlTree final : public YAML::EventHandler {
 public:
  YamlTree(const std::shared_ptr<const Source>& source, size_t begin, Diagnostics& problems)
      : source_(source), begin_(begin), problems_(problems) {
    root_.where = {source_, 1, static_cast<int>(begin_) + 1};
  }

  Node take() { return std::move(root_); }

  Span place(const YAML::Mark& mark) const {
    if (mark.line < 0) return {source_, 1, static_cast<int>(begin_) + 1};
    const int shift = mark.line == 0 ? static_cast<int>(begin_) : 0;
    return {source_, mark.line + 1, mark.column + 1 + shift};
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Span where = written_null(mark) || stack_.empty() ? place(mark) : stack_.back().where();
    add({Node{{}, where}}, anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    add({scalar_node(value, tag == "!", place(mark))}, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      problems_.error(place(mark), "the alias stands inside what it refers to");
      throw Stop{};
    }
    add(found->second, 0);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::List{});
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Map{});
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  /// A section or list that is still being read.
  struct Open {
    Branch branch;
    YAML::anchor_t anchor = 0;
    std::optional<Node> key;           ///< of the value to come
    std::map<std::string, Span> seen;  ///< keys so far

    Span where() const { return key ? key->where : branch.node.where; }
  };

  template <class Collection>
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            Collection empty) {
    check_tag(mark, tag);
    if (stack_.size() >= static_cast<size_t>(kMaxDepth)) {
      report_too_deep(place(mark), problems_);
      throw Stop{};
    }
    stack_.push_back({{Node{std::move(empty), place(mark)}, 1, 1}, anchor, {}, {}});
  }

  void close() {
    Open done = std::move(stack_.back());
    stack_.pop_back();
    total_ -= done.branch.nodes - 1;  // add() counts the whole branch
    add(std::move(done.branch), done.anchor);
  }

  void add(Branch branch, YAML::anchor_t anchor) {
    total_ += branch.nodes;
    if (total_ > kMaxNodes) {
      report_too_many(branch.node.where, problems_);
      throw Stop{};
    }
    if (stack_.size() + static_cast<size_t>(branch.height) > static_cast<size_t>(kMaxDepth)) {
      report_too_deep(branch.node.where, problems_);
      throw Stop{};
    }
    if (anchor) anchors_[anchor] = branch;
    if (stack_.empty()) {
      root_ = std::move(branch.node);
      return;
    }
    Open& parent = stack_.back();
    if (parent.branch.node.map() && !parent.key) {
      parent.key = std::move(branch.node);
      return;
    }
    parent.branch.nodes += branch.nodes;
    parent.branch.height = std::max(parent.branch.height, branch.height + 1);
    if (Node::List* list = parent.branch.node.list()) {
      list->push_back(std::move(branch.node));
    } else {
      add_entry(parent, std::move(branch.node));
    }
  }

  void add_entry(Open& parent, Node value) {
    const Node key = std::move(*parent.key);
    parent.key.reset();
    const Scalar* text = key.scalar();
    if (!text || text->text.empty()) {
      problems_.error(key.where, "a key must be a text, not " + (text ? "empty" : key.describe()));
      return;
    }
    if (text->text == "<<" && !text->quoted) {
      problems_.error(key.where, "merge keys ('<<') are not part of a recipe",
                      "write the keys out, or put them in a file and 'include' it");
      return;
    }
    const auto [first, fresh] = parent.seen.emplace(text->text, key.where);
    if (!fresh) {
      report_duplicate(text->text, key.where, first->second, problems_);
      return;
    }
    parent.branch.node.map()->push_back({text->text, key.where, std::move(value)});
  }

  void check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    problems_.error(place(mark), "tags such as '!!int' are not part of a recipe",
                    "leave the tag out: each option knows its type");
  }

  /// Whether a null was written as a word; else the mark is of whatever comes next.
  bool written_null(const YAML::Mark& mark) const {
    const std::string_view all = source_->text;
    const size_t at = begin_ + static_cast<size_t>(std::max(mark.pos, 0));
    if (mark.pos < 0 || at >= all.size()) return false;
    for (const std::string_view word : {"~", "null", "Null", "NULL"}) {
      if (!all.substr(at).starts_with(word)) continue;
      const size_t next = at + word.size();
      return next == all.size() || std::string_view(" \t\r\n,]}").find(all[next]) != all.npos;
    }
    return false;
  }

  const std::shared_ptr<const Source>& source_;
  const size_t begin_;
  Diagnostics& problems_;
  Node root_;
  std::vector<Open> stack_;
  std::unordered_map<YAML::anchor_t, Branch> anchors_;
  size_t total_ = 0;
};

/// Stops at a second document.
class NoMoreDocuments final : public YAML::EventHandler {
 public:
  explicit NoMoreDocuments(std::optional<YAML::Mark>& found) : found_(found) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    found_ = mark;
    throw Stop{};
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  std::optional<YAML::Mark>& found_;
};

/// yaml-cpp's words for a mistake, and ours.
struct Wording {
  std::string_view theirs;
  const char* message;
  const char* hint;
};

constexpr Wording kWordings[] = {
    {"illegal map value", "a ':' does not belong here",
     "check the indentation; a text with ': ' in it needs quotes"},
    {"end of map not found", "the section ends in the middle of a line",
     "check the indentation, the quotes and the brackets"},
    {"end of sequence not found", "the list ends in the middle of a line",
     "check the indentation, the quotes and the brackets"},
    {"end of map flow", "a '{' is never closed", "add the missing '}' or ','"},
    {"end of sequence flow", "a '[' is never closed", "add the missing ']' or ','"},
    {"EOF in scalar", "the quotes are never closed", "add the missing quote"},
    {"document indicator in scalar", "the quotes are never closed", "add the missing quote"},
    {"illegal flow end", "a closing bracket has no opening one", ""},
    {"illegal block entry", "a '-' does not belong here", "a list starts on a line of its own"},
    {"illegal map key", "a key does not belong here", "check the indentation"},
    {"tab", "a tab does not belong here", "indent with spaces"},
    {"alias not found", "a '*' starts an alias, and no name follows",
     "a text that starts with '*' needs quotes"},
    {"end of alias", "an alias has a character in it that names do not have",
     "a text that starts with '*' needs quotes"},
    {"anchor not found", "a '&' starts an anchor, and no name follows",
     "a text that starts with '&' needs quotes"},
    {"end of anchor", "an anchor has a character in it that names do not have",
     "a text that starts with '&' needs quotes"},
    {"unknown token", "a text cannot start with this character", "put the text in quotes"},
    {"referenced anchor is not defined", "no anchor has the name of this alias",
     "a text that starts with '*' needs quotes"},
    {"bad character", "the escape after '\\' is not one of YAML's",
     "use single quotes to keep every '\\'"},
    {"unknown escape character", "the escape after '\\' is not one of YAML's",
     "use single quotes to keep every '\\'"},
};

void report_syntax(const YAML::Exception& error, const Span& where, Diagnostics& problems) {
  for (const Wording& wording : kWordings) {
    if (error.msg.find(wording.theirs) == std::string::npos) continue;
    problems.error(where, wording.message, wording.hint);
    return;
  }
  problems.error(where, "not YAML: " + error.msg);
}

}  // namespace

Node parse_yaml(const std::shared_ptr<const Source>& source, size_t begin, Diagnostics& problems) {
  YamlTree tree(source, begin, problems);
  std::optional<YAML::Mark> second;
  try {
    std::istringstream text(source->text.substr(begin));
    YAML::Parser parser(text);
    parser.HandleNextDocument(tree);
    NoMoreDocuments no_more(second);
    parser.HandleNextDocument(no_more);
  } catch (const Stop&) {
    if (second) problems.error(tree.place(*second), "a recipe is one document, not several");
  } catch (const YAML::Exception& error) {
    report_syntax(error, tree.place(error.mark), problems);
  }
  return tree.take();
}

}  // namespace accel
