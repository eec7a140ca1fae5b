#include "runner/editor/language_server.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "formats/strict_json.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t kMaxHeaderBytes = 4096;
constexpr size_t kChunk = 64 * 1024;
constexpr size_t kMaxSkipped = size_t{1} << 30;

[[noreturn]] void refuse_frame(const std::string& found) {
  throw Error(ExitCode::kOther, text("{}, expected the header of a message", found),
              "'accel-run lsp' is started by editors: see docs/editors.md");
}

constexpr size_t kMaxDocumentBytes = 1024 * 1024;
constexpr size_t kMaxOpenBytes = 64 * 1024 * 1024;
constexpr int kMaxMessageDepth = 64;

/// Error codes of the protocol.
enum class Fault : int {
  kParse = -32700,
  kRequest = -32600,
  kMethod = -32601,
  kParameters = -32602,
  kNotInitialized = -32002,
};

/// An error response.
struct Refusal {
  Fault fault;
  std::string text;
};

std::string wire(const Json& message) {
  return message.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string failure(const Json& id, Fault fault, const std::string& text) {
  return wire({{"jsonrpc", "2.0"},
               {"id", id},
               {"error", {{"code", static_cast<int>(fault)}, {"message", text}}}});
}

std::string diagnostics_of(const std::string& uri, Json list) {
  return wire({{"jsonrpc", "2.0"},
               {"method", "textDocument/publishDiagnostics"},
               {"params", {{"uri", uri}, {"diagnostics", std::move(list)}}}});
}

/// A notice at the start of a document above a limit.
std::string unchecked(const std::string& uri, const std::string& message) {
  constexpr int kInformation = 3;  // as the protocol numbers it
  const Json start = {{"line", 0}, {"character", 0}};
  return diagnostics_of(uri, Json::array({{{"range", {{"start", start}, {"end", start}}},
                                           {"severity", kInformation},
                                           {"source", "accel-run"},
                                           {"message", message}}}));
}

Json wire_position(const EditorPosition& position) {
  return {{"line", position.line}, {"character", position.character}};
}

Json range_of(const EditorDocument& document, size_t begin, size_t end) {
  return {{"start", wire_position(document.position_of(begin))},
          {"end", wire_position(document.position_of(end))}};
}

EditorPosition editor_position(const Json& position) {
  const Json &line = position.at("line"), &character = position.at("character");
  if (!line.is_number_unsigned() || !character.is_number_unsigned()) {
    throw Refusal{Fault::kParameters, "a position needs two whole numbers"};
  }
  return {line.get<size_t>(), character.get<size_t>()};
}

std::string canonical_path(const std::string& path) {
  std::error_code error;
  return fs::weakly_canonical(path, error).string();
}

/// End of the underlined range of a diagnostic: of a quoted or a plain scalar.
size_t problem_end(const std::string& text, size_t begin) {
  const size_t line_end = std::min(text.find('\n', begin), text.size());
  const char first = begin < line_end ? text[begin] : '\0';
  size_t end = begin;
  if (first == '"' || first == '\'') {
    end = std::min(text.find(first, begin + 1), line_end - 1) + 1;
  } else {
    while (end < line_end && std::string_view(",]}#:=").find(text[end]) == std::string_view::npos) {
      ++end;
    }
    while (end > begin && std::string_view(" \t\r").find(text[end - 1]) != std::string_view::npos) {
      --end;
    }
  }
  return std::min(std::max(end, begin + 1), line_end);
}

/// CompletionItemKind of the protocol.
int completion_kind(Suggestion::Kind kind) {
  switch (kind) {
    case Suggestion::Kind::kOption:
      return 10;  // a property
    case Suggestion::Kind::kSection:
      return 9;  // a module
    case Suggestion::Kind::kComponent:
      return 7;  // a class
    case Suggestion::Kind::kValue:
      break;
  }
  return 12;  // a value
}

constexpr auto kQuickFix = "quickfix";

Json capabilities() {
  return {{"capabilities",
           {{"positionEncoding", "utf-16"},
            {"textDocumentSync", {{"openClose", true}, {"change", 1}}},
            {"completionProvider", {{"triggerCharacters", {":", " ", "{", "["}}}},
            {"hoverProvider", true},
            {"definitionProvider", true},
            {"codeActionProvider", {{"codeActionKinds", Json::array({kQuickFix})}}}}},
          {"serverInfo", {{"name", "accel-run"}}}};
}

/// The text that replaces the word at the cursor.
std::string inserted(const Suggestion& word, bool key, bool toml, bool touches_colon) {
  if (!key) {
    const bool plain = word.word == "true" || word.word == "false" ||
                       word.word.find_first_not_of("0123456789.e-+") == std::string::npos;
    return (touches_colon ? " " : "") + (toml && !plain ? '"' + word.word + '"' : word.word);
  }
  return word.word + (toml ? " = " : ": ");
}

}  // namespace

bool FrameReader::fill_buffer() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t before = buffer_.size();
  buffer_.resize(before + kChunk);
  buffer_.resize(before + read_(buffer_.data() + before, kChunk));
  return buffer_.size() > before;
}

std::optional<std::string> FrameReader::line() {
  for (;;) {
    const size_t end = buffer_.find('\n', begin_);
    if (end != std::string::npos && end - begin_ <= kMaxHeaderBytes) {
      std::string text = buffer_.substr(begin_, end - begin_);
      begin_ = end + 1;
      if (text.ends_with('\r')) text.pop_back();
      return text;
    }
    if (buffer_.size() - begin_ > kMaxHeaderBytes) refuse_frame("a line without an end");
    if (!fill_buffer()) return std::nullopt;
  }
}

std::optional<size_t> FrameReader::headers() {
  std::optional<size_t> length;
  size_t bytes = 0;
  for (bool first = true;; first = false) {
    const std::optional<std::string> text = line();
    if (!text) return std::nullopt;
    if (text->empty() && !first) break;
    bytes += text->size();
    if (bytes > kMaxHeaderBytes) refuse_frame("too long a header");
    const size_t colon = text->find(':');
    if (colon == std::string::npos) refuse_frame("'" + printable(text->substr(0, 60)) + "'");
    if (ascii_lower(text->substr(0, colon)) != "content-length") continue;
    const size_t digits = text->find_first_not_of(' ', colon + 1);
    size_t value = 0;
    const char* end = text->data() + text->size();
    const char* begin = digits == std::string::npos ? end : text->data() + digits;
    const auto parsed = std::from_chars(begin, end, value);
    if (begin == end || parsed.ec != std::errc() || parsed.ptr != end || value > kMaxSkipped) {
      refuse_frame("'" + printable(text->substr(0, 60)) + "'");
    }
    length = value;
  }
  if (!length) refuse_frame("a header without 'Content-Length'");
  return length;
}

std::optional<MessageFrame> FrameReader::next() {
  const std::optional<size_t> length = headers();
  if (!length) return std::nullopt;
  MessageFrame frame;
  frame.too_large = *length > kMaxMessageBytes;
  for (size_t left = *length; left > 0;) {
    if (!has_more() && !fill_buffer()) return std::nullopt;
    const size_t part = std::min(left, buffer_.size() - begin_);
    if (!frame.too_large) frame.body.append(buffer_, begin_, part);
    begin_ += part;
    left -= part;
  }
  return frame;
}

std::string framed(std::string_view body) {
  std::string out = "Content-Length: ";
  out.append(std::to_string(body.size())).append("\r\n\r\n").append(body);
  return out;
}

std::string LanguageServer::too_large() {
  return failure(nullptr, Fault::kRequest, "the message is too large");
}

std::vector<std::string> LanguageServer::receive(std::string_view text) {
  Json message;
  try {
    MemoryBudget budget(text.size(), "the message");
    message = parse_strict_json(text, "the message", kMaxMessageDepth, budget);
  } catch (const FormatError& error) {
    return {failure(nullptr, Fault::kParse, error.what())};
  }
  const Json id = message.value("id", Json());
  const Json method = message.value("method", Json());
  const bool request = message.contains("id");
  if (!method.is_string()) {
    if (!request || message.contains("result") || message.contains("error")) return {};
    return {failure(id, Fault::kRequest, "the message has no method")};
  }
  const Json parameters = message.value("params", Json::object());
  try {
    if (request)
      return {wire({{"jsonrpc", "2.0"}, {"id", id}, {"result", answer(method, parameters)}})};
    notice(method, parameters);
  } catch (const Refusal& refusal) {
    if (request) return {failure(id, refusal.fault, refusal.text)};
  } catch (const Json::exception&) {
    const std::string text_of =
        accel::text("invalid parameters of '{}'", method.get<std::string>());
    if (request) return {failure(id, Fault::kParameters, text_of)};
  }
  return {};
}

Json LanguageServer::answer(const std::string& method, const Json& parameters) {
  if (method == "initialize") {
    initialized_ = true;
    return capabilities();
  }
  if (!initialized_) throw Refusal{Fault::kNotInitialized, "'initialize' must come first"};
  if (shut_down_) throw Refusal{Fault::kRequest, "only 'exit' may follow 'shutdown'"};
  if (method == "shutdown") {
    shut_down_ = true;
    return nullptr;
  }
  const bool fixes = method == "textDocument/codeAction";
  const bool known = fixes || method == "textDocument/completion" ||
                     method == "textDocument/hover" || method == "textDocument/definition";
  if (!known) throw Refusal{Fault::kMethod, accel::text("there is no method '{}'", method)};
  const auto found = documents_.find(parameters.at("textDocument").at("uri").get<std::string>());
  if (fixes) {
    return found == documents_.end() ? nullptr : quick_fixes(found->second, parameters.at("range"));
  }
  const EditorPosition position = editor_position(parameters.at("position"));
  if (found == documents_.end()) return nullptr;
  if (method == "textDocument/completion") return complete(found->second, position);
  if (method == "textDocument/hover") return hover(found->second, position);
  return definition(found->second, position);
}

void LanguageServer::notice(const std::string& method, const Json& parameters) {
  if (method == "exit") ended_ = true;
  if (!initialized_ || shut_down_) return;
  if (method == "textDocument/didOpen") {
    const Json& document = parameters.at("textDocument");
    set_text(document, document.at("text"));
  } else if (method == "textDocument/didChange") {
    const Json& changes = parameters.at("contentChanges");
    if (!changes.empty()) set_text(parameters.at("textDocument"), changes.back().at("text"));
  } else if (method == "textDocument/didClose") {
    close(parameters.at("textDocument").at("uri"));
  } else if (method == "textDocument/didSave") {
    for (const auto& [uri, open] : documents_) changed_.insert(uri);
  }
}

void LanguageServer::set_text(const Json& document, const std::string& text) {
  const std::string uri = document.at("uri");
  const bool known = documents_.contains(uri);
  const size_t others = open_bytes() - (known ? documents_[uri].text.size() : 0);
  const bool large = text.size() > kMaxDocumentBytes;
  if (large || others + text.size() > kMaxOpenBytes) {
    if (known) close(uri);
    // Editors send every YAML file.
    if (looks_like_recipe(std::string_view(text).substr(0, kMaxDocumentBytes))) {
      outbox_.push_back(unchecked(uri, large ? "not checked: larger than 1 MiB"
                                             : "not checked: the open files exceed 64 MiB"));
    }
    return;
  }
  EditorDocument& open = documents_[uri];
  if (!known) {
    open.uri = uri;
    open.path = path_of_uri(uri);
    const bool toml = document.value("languageId", std::string()) == "toml";
    if (open.path.empty())
      open.path = fs::absolute(toml ? "unsaved.toml" : "unsaved.yaml").string();
  }
  open.text = text;
  fixes_.erase(uri);  // their positions are those of the earlier text
  changed_.insert(uri);
}

void LanguageServer::close(const std::string& uri) {
  if (documents_.erase(uri) == 0) return;
  fixes_.erase(uri);
  changed_.insert(uri);  // others may include it
  outbox_.push_back(diagnostics_of(uri, Json::array()));
}

std::vector<std::string> LanguageServer::publish() {
  std::vector<std::string> out = std::exchange(outbox_, {});
  const std::set<std::string> changed = std::exchange(changed_, {});
  if (changed.empty()) return out;
  for (const auto& [uri, document] : documents_) {
    const bool may_include = document.text.find("include") != std::string::npos;
    if (!changed.contains(uri) && !may_include) continue;
    Json list = Json::array();
    fixes_.erase(uri);
    if (looks_like_recipe(document.text)) {
      for (const Diagnostic& found : host_.check(document.path, texts())) {
        list.push_back(problem(document, found));
      }
    }
    out.push_back(diagnostics_of(uri, std::move(list)));
  }
  return out;
}

/// Errors in other files, such as includes, are shown at the start of the text.
Json LanguageServer::problem(const EditorDocument& document, const Diagnostic& found) {
  const Source* source = found.where.source.get();
  const bool here = source && source->kind == Source::Kind::kFile && found.where.line > 0 &&
                    canonical_path(source->path) == canonical_path(document.path);
  std::string text = found.message;
  if (!here && source && source->kind == Source::Kind::kFile) {
    const std::string line = found.where.line > 0 ? ":" + std::to_string(found.where.line) : "";
    if (canonical_path(source->path) != canonical_path(document.path)) {
      text = source->path + line + ": " + text;
    }
  } else if (!here && source && source->kind == Source::Kind::kEnvironment) {
    text = "environment " + source->path + ": " + text;
  }
  if (!found.hint.empty()) text.append("\nhint: ").append(found.hint);
  const size_t begin = here ? document.offset_at(found.where.line, found.where.column) : 0;
  const size_t end = problem_end(document.text, begin);
  if (const auto name = proposed_name(found); name && here) {
    const bool quoted = end - begin > 1 && std::string_view("\"'").find(document.text[begin]) !=
                                               std::string_view::npos;
    fixes_[document.uri].push_back({begin + quoted, end - quoted, *name});
  }
  constexpr int kError = 1, kWarning = 2, kDeprecated = 2;  // as the protocol numbers them
  const bool deprecated = found.severity == Severity::kWarning;
  Json out = {{"range", range_of(document, begin, end)},
              {"severity", deprecated ? kWarning : kError},
              {"source", "accel-run"},
              {"message", text}};
  if (deprecated) out["tags"] = Json::array({kDeprecated});
  return out;
}

size_t LanguageServer::open_bytes() const {
  size_t out = 0;
  for (const auto& [uri, document] : documents_) out += document.text.size();
  return out;
}

EditorHost::Texts LanguageServer::texts() const {
  EditorHost::Texts out;
  for (const auto& [uri, document] : documents_) {
    out[canonical_path(document.path)] = document.text;
  }
  return out;
}

/// The merged recipe with `text` as the document's contents.
Node LanguageServer::composed(const EditorDocument& document, const std::string& text,
                              const Node& own) const {
  if (!own.find("include")) return own;
  EditorHost::Texts all = texts();
  all[canonical_path(document.path)] = text;
  Node whole = host_.compose(document.path, all);
  return whole.null() ? own : whole;
}

Json LanguageServer::complete(const EditorDocument& document,
                              const EditorPosition& position) const {
  const size_t offset = document.offset_of(position);
  const std::optional<RecipeCursor> cursor = find_cursor(document.path, document.text, offset);
  if (!cursor) return Json::array();
  const Node tree = composed(document, cursor->patched, cursor->tree);
  const bool toml = document.path.ends_with(".toml");
  const bool quoted = cursor->begin > 0 && (document.text[cursor->begin - 1] == '"' ||
                                            document.text[cursor->begin - 1] == '\'');
  Json out = Json::array();
  const auto add = [&](const std::vector<Suggestion>& words, bool key) {
    for (const Suggestion& word : words) {
      const std::string text =
          inserted(word, key, toml && !quoted, cursor->touches_colon && !quoted);
      out.push_back(
          {{"label", word.word},
           {"kind", completion_kind(word.kind)},
           {"detail", word.detail},
           {"documentation", {{"kind", "markdown"}, {"value", word.help}}},
           {"filterText", word.word},
           {"textEdit",
            {{"range", range_of(document, cursor->begin, cursor->end)}, {"newText", text}}}});
    }
  };
  const bool item = !cursor->path.empty() &&
                    std::isdigit(static_cast<unsigned char>(cursor->path.back().front()));
  if (cursor->key) add(host_.help.keys(tree, cursor->path), true);
  if (!cursor->key || item) add(host_.help.values(tree, cursor->path), false);
  return out;
}

Json LanguageServer::hover(const EditorDocument& document, const EditorPosition& position) const {
  const size_t offset = document.offset_of(position);
  const std::optional<RecipeWord> word = find_word(document.path, document.text, offset);
  if (!word) return nullptr;
  const Node tree = composed(document, document.text, word->tree);
  const std::string text = host_.help.explain(tree, word->path);
  if (text.empty()) return nullptr;
  return {{"contents", {{"kind", "markdown"}, {"value", text}}},
          {"range", range_of(document, word->begin, word->end)}};
}

/// The replacements of misspelled and deprecated names in a range.
Json LanguageServer::quick_fixes(const EditorDocument& document, const Json& range) const {
  const size_t from = document.offset_of(editor_position(range.at("start")));
  const size_t to = document.offset_of(editor_position(range.at("end")));
  Json out = Json::array();
  const auto found = fixes_.find(document.uri);
  if (found == fixes_.end()) return out;
  for (const QuickFix& fix : found->second) {
    if (fix.end < from || fix.begin > to) continue;
    const Json edit = {{"range", range_of(document, fix.begin, fix.end)},
                       {"newText", fix.replacement}};
    out.push_back({{"title", accel::text("Replace with '{}'", fix.replacement)},
                   {"kind", kQuickFix},
                   {"isPreferred", true},
                   {"edit", {{"changes", {{document.uri, Json::array({edit})}}}}}});
  }
  return out;
}

/// The file of an included recipe.
Json LanguageServer::definition(const EditorDocument& document,
                                const EditorPosition& position) const {
  constexpr std::string_view kBuiltinPrefix = "builtin:";
  const size_t offset = document.offset_of(position);
  const std::optional<RecipeWord> word = find_word(document.path, document.text, offset);
  if (!word || word->key || word->path.empty() || word->path.front() != "include") return nullptr;
  const Node* node = &word->tree.find("include")->node;
  if (node->list() && word->path.size() > 1) node = &(*node->list())[std::stoul(word->path[1])];
  const Scalar* name = node->scalar();
  if (!name) return nullptr;
  fs::path path = fs::path(document.path).parent_path() / name->text;
  if (name->text.starts_with(kBuiltinPrefix)) {
    path = fs::path(host_.builtin_folder) / name->text.substr(kBuiltinPrefix.size());
    if (!path.has_extension()) path += ".yaml";
  }
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return nullptr;
  const Json start = {{"line", 0}, {"character", 0}};
  return {{"uri", uri_of_path(path.lexically_normal().string())},
          {"range", {{"start", start}, {"end", start}}}};
}

}  // namespace accel
