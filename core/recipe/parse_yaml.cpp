#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/recipe/parse.h"

namespace accel {
namespace {

constexpr auto kOpenQuotes = "the quotes are never closed";
constexpr auto kCloseQuotes = "add the missing quote";
constexpr auto kQuoteStar = "a text that starts with '*' needs quotes";
constexpr auto kQuoteAnd = "a text that starts with '&' needs quotes";
constexpr auto kBadEscape = "the escape after '\\' is not one of YAML's";
constexpr auto kSingleQuotes = "use single quotes to keep every '\\'";

/// Ends a parse whose error is already reported.
struct Stop {};

/// A subtree, its start in the text, and the cost of an alias to it.
struct Branch {
  Node node;
  size_t offset = 0;
  size_t bytes = 0;  ///< of texts and keys
  size_t nodes = 1;
  int height = 0;
};

/// yaml-cpp reads the escapes \N and \_ as the bytes 85 and a0 instead of U+0085 and U+00A0. All
/// else it reads is UTF-8, so a byte of those that belongs to no character is one of them.
std::string with_whole_characters(const std::string& read) {
  std::string whole;
  for (size_t at = 0; at < read.size();) {
    const size_t length = character_length(read, at);
    if (length == 0) whole += '\xc2';
    whole.append(read, at, std::max<size_t>(1, length));
    at += std::max<size_t>(1, length);
  }
  return whole;
}

/// Builds the tree from yaml-cpp's events, which have the positions of values and keys and the
/// quotes, and allow limits on the size.
class YamlTree final : public YAML::EventHandler {
 public:
  YamlTree(const std::shared_ptr<const Source>& source, size_t begin, Diagnostics& problems)
      : source_(source), begin_(begin), problems_(problems) {
    root_.where = {source_, 1, static_cast<int>(begin_) + 1};
  }

  /// The whole tree, unless the parse failed.
  Node take() {
    for (const Diagnostic& d : no_values_) problems_.error(d.where, d.message, d.hint);
    return std::move(root_);
  }

  Span place(const YAML::Mark& mark) const {
    if (mark.line < 0) return {source_, 1, static_cast<int>(begin_) + 1};
    const int shift = mark.line == 0 ? static_cast<int>(begin_) : 0;
    return {source_, mark.line + 1, mark.column + 1 + shift};
  }

  /// In bytes from the start of the source.
  size_t offset(const YAML::Mark& mark) const {
    const size_t at = begin_ + static_cast<size_t>(std::max(mark.pos, 0));
    return std::min(at, source_->text.size());
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const bool written = written_null(offset(mark));
    if (!written && !stack_.empty()) check_colon(stack_.back());
    const Span where = written || stack_.empty() ? place(mark) : stack_.back().where();
    add_leaf({Node{{}, where}, offset(mark)}, anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    if (tag == "!") check_quotes(mark);
    std::string text = with_whole_characters(value);
    const size_t bytes = text.size();
    add_leaf({scalar_node(std::move(text), tag == "!", place(mark)), offset(mark), bytes}, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      problems_.error(place(mark), "the alias stands inside what it refers to");
      throw Stop{};
    }
    add_leaf(found->second, 0);
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

  /// The innermost open section or list; the root when there is none.
  Span innermost() const { return stack_.empty() ? root_.where : stack_.back().branch.node.where; }

 private:
  /// An open section or list.
  struct Open {
    Branch branch;
    YAML::anchor_t anchor = 0;
    std::optional<Node> key;  ///< of the next value
    size_t key_offset = 0;
    std::map<std::string, Span> seen;  ///< keys read so far

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
    Open fresh;
    fresh.branch = {Node{std::move(empty), place(mark)}, offset(mark), 0, 1, 1};
    fresh.anchor = anchor;
    count(fresh.branch);
    stack_.push_back(std::move(fresh));
  }

  void close() {
    Open done = std::move(stack_.back());
    stack_.pop_back();
    add(std::move(done.branch), done.anchor);
  }

  bool awaits_key() const {
    return !stack_.empty() && stack_.back().branch.node.map() && !stack_.back().key;
  }

  /// Enforces the limits. A key is not counted as a value.
  void count(const Branch& branch) {
    nodes_ += awaits_key() && branch.node.scalar() ? 0 : branch.nodes;
    bytes_ += branch.bytes;
    if (nodes_ > kMaxNodes) {
      report_too_many(branch.node.where, problems_);
      throw Stop{};
    }
    if (bytes_ > kMaxExpandedBytes) {
      problems_.error(branch.node.where, "aliases make the recipe too large");
      throw Stop{};
    }
  }

  void add_leaf(Branch branch, YAML::anchor_t anchor) {
    count(branch);
    add(std::move(branch), anchor);
  }

  void add(Branch branch, YAML::anchor_t anchor) {
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
    parent.branch.bytes += branch.bytes;
    if (awaits_key()) {
      parent.key = std::move(branch.node);
      parent.key_offset = branch.offset;
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
    const Scalar* name = key.scalar();
    if (!name) {
      problems_.error(key.where, text("a key must be a text, not {}", key.describe()));
      return;
    }
    if (name->text.empty()) return report_empty_key(key.where, problems_);
    if (name->text == "<<" && !name->quoted) {
      problems_.error(key.where, "merge keys ('<<') are not part of a recipe",
                      "write the keys out, or put them in a file and 'include' it");
      return;
    }
    const auto [first, fresh] = parent.seen.emplace(name->text, key.where);
    if (!fresh) {
      report_duplicate(name->text, key.where, first->second, problems_);
      return;
    }
    parent.branch.node.map()->push_back({name->text, key.where, std::move(value)});
  }

  void check_tag(const YAML::Mark& mark, const std::string& tag) {
    const bool none = tag.empty() || tag == "?" || tag == "!";
    if (none && !source_->text.substr(offset(mark), 1).starts_with('!')) return;
    problems_.error(place(mark), "tags such as '!!int' are not part of a recipe",
                    "leave the tag out: each option knows its type");
  }

  /// yaml-cpp treats unclosed quotes as closed at the end of the text.
  void check_quotes(const YAML::Mark& mark) {
    const std::string& all = source_->text;
    size_t at = offset(mark);
    if (all[at] == '&') at = std::min(all.find_first_of("'\"|>\n", at), all.size() - 1);
    const char quote = all[at];
    if (quote != '\'' && quote != '"') return;
    while (++at < all.size() && all[at] != quote) {
      if (quote == '"' && all[at] == '\\') ++at;
    }
    if (at >= all.size()) problems_.error(place(mark), kOpenQuotes, kCloseQuotes);
  }

  /// yaml-cpp treats a line without a colon as a key without a value.
  void check_colon(const Open& section) {
    if (!section.key || !section.key->scalar()) return;
    const std::string& all = source_->text;
    const std::string& key = section.key->scalar()->text;
    const size_t end = all.find_first_of(":\n,}#", section.key_offset + key.size());
    if (end != all.npos && all[end] == ':') return;
    const std::string message = text("'{}' has no value", key);
    no_values_.push_back({section.key->where, message, text("write '{}: value'", key)});
  }

  /// Whether a null is written out at `at`; else the position is that of the next token.
  bool written_null(size_t at) const {
    const std::string_view all = source_->text;
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
  std::vector<Diagnostic> no_values_;  ///< dropped when a syntax error follows
  size_t nodes_ = 0;
  size_t bytes_ = 0;
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

/// Messages of yaml-cpp and their replacements.
struct Wording {
  std::string_view theirs;
  const char* message;
  const char* hint;
  bool at_opening = false;  ///< reported at the start of the section or list
};

constexpr auto kCheckLayout = "check the indentation, the quotes and the brackets";

constexpr Wording kWordings[] = {
    {"illegal map value", "a ':' does not belong here",
     "check the indentation; a text with ': ' in it needs quotes"},
    {"end of map not found", "this does not continue the section", kCheckLayout},
    {"end of sequence not found", "this does not continue the list", kCheckLayout},
    {"end of map flow", "a '{' is never closed", "add the missing '}' or ','", true},
    {"end of sequence flow", "a '[' is never closed", "add the missing ']' or ','", true},
    {"EOF in scalar", kOpenQuotes, kCloseQuotes},
    {"document indicator in scalar", kOpenQuotes, kCloseQuotes},
    {"illegal flow end", "a closing bracket has no opening one", ""},
    {"illegal block entry", "a '-' does not belong here", "a list starts on a line of its own"},
    {"illegal map key", "a key does not belong here", "check the indentation"},
    {"alias not found", "a '*' starts an alias, and no name follows", kQuoteStar},
    {"end of alias", "an alias has a character in it that names do not have", kQuoteStar},
    {"referenced anchor is not defined", "no anchor has the name of this alias", kQuoteStar},
    {"anchor not found", "a '&' starts an anchor, and no name follows", kQuoteAnd},
    {"end of anchor", "an anchor has a character in it that names do not have", kQuoteAnd},
    {"unknown token", "a text cannot start with this character", "put the text in quotes"},
    {"bad character", kBadEscape, kSingleQuotes},
    {"unknown escape character", kBadEscape, kSingleQuotes},
};

/// Errors that are recognized by the text, not by yaml-cpp's message. False: none of these.
bool report_visible(const Span& where, Diagnostics& problems) {
  const std::string& all = where.source->text;
  size_t line = 0;
  for (int i = 1; i < where.line; ++i) line = all.find('\n', line) + 1;
  const size_t text = std::min(all.find_first_not_of(" \t", line), all.size());
  const size_t tab = all.find('\t', line);
  if (tab < text) {
    problems.error({where.source, where.line, static_cast<int>(tab - line) + 1},
                   "a tab indents this line", "indent with spaces");
    return true;
  }
  const size_t at = line + static_cast<size_t>(where.column) - 1;
  const size_t reference = all.rfind("${", at);
  if (reference == all.npos || reference < line || at - reference > 1) return false;
  problems.error({where.source, where.line, static_cast<int>(reference - line) + 1},
                 "a text with '${...}' needs quotes inside brackets", "put the text in quotes");
  return true;
}

void report_syntax(const YAML::Exception& error, const YamlTree& tree, Diagnostics& problems) {
  const Span where = tree.place(error.mark);
  if (report_visible(where, problems)) return;
  for (const Wording& wording : kWordings) {
    if (error.msg.find(wording.theirs) == std::string::npos) continue;
    problems.error(wording.at_opening ? tree.innermost() : where, wording.message, wording.hint);
    return;
  }
  problems.error(where, "not YAML: " + error.msg);
}

/// Without '---' the second document is the rest of a text that ended too early.
void report_second(const Span& where, size_t offset, Diagnostics& problems) {
  if (where.source->text.compare(offset, 3, "---") == 0) {
    problems.error(where, "a recipe is one document, not several");
  } else {
    problems.error(where, "nothing can follow here", kCheckLayout);
  }
}

}  // namespace

Node parse_yaml(const std::shared_ptr<const Source>& source, size_t begin, Diagnostics& problems) {
  // yaml-cpp skips a byte order mark and does not count it in positions.
  while (source->text.compare(begin, kByteOrderMark.size(), kByteOrderMark) == 0) {
    begin += kByteOrderMark.size();
  }
  YamlTree tree(source, begin, problems);
  std::optional<YAML::Mark> second;
  try {
    std::istringstream text(source->text.substr(begin));
    YAML::Parser parser(text);
    parser.HandleNextDocument(tree);
    NoMoreDocuments no_more(second);
    parser.HandleNextDocument(no_more);
    return tree.take();
  } catch (const Stop&) {
    if (second) report_second(tree.place(*second), tree.offset(*second), problems);
  } catch (const YAML::Exception& error) {
    report_syntax(error, tree, problems);
  }
  return {};
}

}  // namespace accel
