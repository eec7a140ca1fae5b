#include "runner/editor/language_server.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/recipe/compose.h"
#include "tests/unit/core/test_components.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::language_server_test {
namespace {

using Json = nlohmann::json;

/// An editor beside a server of small recipes.
class LanguageServerTest : public testing::Test {
 protected:
  LanguageServerTest()
      : registry_(test_registry()),
        server_(
            {RecipeHelp(TestRecipe::schema().info(), registry_), folder_.path(),
             [this](const auto& path, const auto& texts) { return check(path, texts); },
             [this](const auto& path, const auto& texts) { return compose_tree(path, texts); }}) {
    request("initialize", Json::object());
  }

  Json send(const Json& message) {
    const std::vector<std::string> answers = server_.receive(message.dump());
    return answers.empty() ? Json() : Json::parse(answers.at(0));
  }
  Json request(const std::string& method, const Json& parameters) {
    return send({{"jsonrpc", "2.0"}, {"id", 1}, {"method", method}, {"params", parameters}});
  }
  void notify(const std::string& method, const Json& parameters) {
    EXPECT_TRUE(send({{"jsonrpc", "2.0"}, {"method", method}, {"params", parameters}}).is_null());
  }
  std::string uri(const std::string& name) const {
    return uri_of_path(folder_.path() + "/" + name);
  }
  void open(const std::string& name, const std::string& text) {
    notify("textDocument/didOpen",
           {{"textDocument", {{"uri", uri(name)}, {"languageId", "yaml"}, {"text", text}}}});
  }
  /// Opens a text with a bar where the cursor is, and asks there.
  Json ask(const std::string& method, std::string text, const std::string& name = "r.yaml") {
    const size_t offset = text.find('|');
    text.erase(offset, 1);
    open(name, text);
    const EditorPosition at = EditorDocument{"", "", text}.position_of(offset);
    return request("textDocument/" + method,
                   {{"textDocument", {{"uri", uri(name)}}},
                    {"position", {{"line", at.line}, {"character", at.character}}}})["result"];
  }
  /// "lr, mode": the words that are offered.
  std::string words(const std::string& text, const std::string& name = "r.yaml") {
    std::string out;
    for (const Json& item : ask("completion", text, name)) {
      out += (out.empty() ? "" : ", ") + item["label"].get<std::string>();
    }
    return out;
  }
  Json published(const std::string& name) {
    Json out;
    for (const std::string& text : server_.publish()) {
      const Json message = Json::parse(text);
      EXPECT_EQ(message["method"], "textDocument/publishDiagnostics");
      if (message["params"]["uri"] == uri(name)) out = message["params"]["diagnostics"];
    }
    return out;
  }

  TempFolder folder_;
  Registry registry_;
  LanguageServer server_;

 private:
  ComposeRequest request_for(const std::string& path, const EditorHost::Texts& texts) {
    ComposeRequest request;
    request.recipe = path;
    request.texts = texts;
    request.builtin_folder = folder_.path();
    return request;
  }
  std::vector<Diagnostic> check(const std::string& path, const EditorHost::Texts& texts) {
    Diagnostics problems;
    try {
      const Composition composition = compose(request_for(path, texts), problems);
      Reading reading{problems, registry_};
      TestRecipe::schema().read(composition.recipe, reading);
      problems.check();
    } catch (const RecipeError& error) {
      return error.diagnostics();
    }
    return {};
  }
  Node compose_tree(const std::string& path, const EditorHost::Texts& texts) {
    Diagnostics problems;
    return compose(request_for(path, texts), problems).recipe;
  }
};

TEST_F(LanguageServerTest, TellsWhatIsWrongAsTheTextChanges) {
  open("r.yaml", "train: {type: counting, path: 'ö', sise: 3}\nlr: 2\n");
  EXPECT_EQ(published("r.yaml"), Json::parse(R"([
    {"severity": 1, "source": "accel-run", "message": "unknown option 'sise'\nhint: did you mean 'size'?",
     "range": {"start": {"line": 0, "character": 35}, "end": {"line": 0, "character": 39}}},
    {"severity": 1, "source": "accel-run", "message": "'lr' must be in [0, 1), not 2",
     "range": {"start": {"line": 1, "character": 4}, "end": {"line": 1, "character": 5}}}])"));
  EXPECT_TRUE(server_.publish().empty()) << "nothing has changed";
  notify("textDocument/didChange", {{"textDocument", {{"uri", uri("r.yaml")}, {"version", 2}}},
                                    {"contentChanges", {{{"text", "train: [\n"}}}}});
  EXPECT_EQ(published("r.yaml")[0]["message"],
            "a '[' is never closed\nhint: add the missing ']' or ','");
  notify("textDocument/didChange", {{"textDocument", {{"uri", uri("r.yaml")}}},
                                    {"contentChanges", {{{"text", "services: [\n"}}}}});
  EXPECT_EQ(published("r.yaml"), Json::array()) << "that is no recipe";
  notify("textDocument/didClose", {{"textDocument", {{"uri", uri("r.yaml")}}}});
  EXPECT_EQ(published("r.yaml"), Json::array());
}

TEST_F(LanguageServerTest, ReplacesMisspelledNames) {
  const auto fixes = [this](size_t line, size_t begin, size_t end) {
    const Json range = {{"start", {{"line", line}, {"character", begin}}},
                        {"end", {{"line", line}, {"character", end}}}};
    return request("textDocument/codeAction",
                   {{"textDocument", {{"uri", uri("r.yaml")}}},
                    {"range", range},
                    {"context", {{"diagnostics", Json::array()}}}})["result"];
  };
  open("r.yaml", "train: {type: 'countin', path: 'ö', sise: 3}\nlr: 2\n");
  EXPECT_EQ(published("r.yaml").size(), 3u);
  EXPECT_EQ(fixes(0, 37, 37), Json::array({{{"title", "Replace with 'size'"},
                                            {"kind", "quickfix"},
                                            {"isPreferred", true},
                                            {"edit", {{"changes", {{uri("r.yaml"), Json::parse(R"([
    {"newText": "size", "range": {"start": {"line": 0, "character": 36},
                                  "end": {"line": 0, "character": 40}}}])")}}}}}}}));
  const Json quoted = fixes(0, 16, 16)[0]["edit"]["changes"][uri("r.yaml")][0];
  EXPECT_EQ(quoted["newText"], "counting");
  EXPECT_EQ(quoted["range"]["start"]["character"], 15);
  EXPECT_EQ(quoted["range"]["end"]["character"], 22);
  EXPECT_EQ(fixes(0, 0, 44).size(), 2u);
  EXPECT_EQ(fixes(1, 0, 4), Json::array()) << "no name is proposed for a number";
  open("r.yaml", "lr: 0.5\n");
  EXPECT_EQ(fixes(0, 0, 4), Json::array()) << "the text has changed";
  EXPECT_TRUE(
      request("textDocument/codeAction", {{"textDocument", {{"uri", "file:///none"}}}})["result"]
          .is_null());
}

TEST_F(LanguageServerTest, SeesWhatAnotherOpenFileWillBring) {
  folder_.write("base.yaml", "lr: 0.5\n");
  open("r.yaml", "include: base.yaml\ntrain: {type: counting, path: a}\n");
  EXPECT_EQ(published("r.yaml"), Json::array());
  open("base.yaml", "lr: 5\n");
  const Json problems = published("r.yaml");
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0]["message"], folder_.path() + "/base.yaml:1: 'lr' must be in [0, 1), not 5");
  EXPECT_EQ(problems[0]["range"]["start"]["line"], 0);
}

TEST_F(LanguageServerTest, OffersKeysThatAreNotThere) {
  EXPECT_EQ(words("seed: 1\nlr: 1\nmode: no\nfolder: x\nkey: x\nuntil: 1\nevery: 1\ncache: 1\n"
                  "micro: 1\nclip: 1\nnames: []\n|"),
            "include, bounds, train, eval, loader");
  EXPECT_EQ(words("loader:\n  sh|\n"), "workers, shuffle");
  EXPECT_EQ(words("train: {type: counting, |}"), "path, size, widths");
  EXPECT_EQ(words("train: {|}"), "type, path, size, widths");
  EXPECT_EQ(words("[loader]\nworkers = 2\n|", "r.toml"), "shuffle");
  EXPECT_EQ(words("bounds: {|}"), "") << "its keys are the user's";
  const Json item = ask("completion", "loader: {wo|rk}")[0];
  EXPECT_EQ(item, Json::parse(R"({"label": "workers", "kind": 10, "filterText": "workers",
    "detail": "a whole number; between 0 and 8; default 2",
    "documentation": {"kind": "markdown", "value": "Threads."},
    "textEdit": {"newText": "workers: ", "range": {"start": {"line": 0, "character": 9},
                                                   "end": {"line": 0, "character": 13}}}})"));
}

TEST_F(LanguageServerTest, OffersWordsForValues) {
  EXPECT_EQ(words("mode: |"), "no, bf16");
  EXPECT_EQ(words("loader: {shuffle: f|}"), "true, false");
  EXPECT_EQ(words("train: c|"), "counting");
  EXPECT_EQ(words("eval:\n  - |\n"), "type, path, size, widths, counting");
  EXPECT_EQ(words("eval:\n  - type: |\n"), "counting");
  EXPECT_EQ(words("micro: |"), "auto");
  EXPECT_EQ(words("until: |"), "3 epochs");
  EXPECT_EQ(words("x: |"), "");
  EXPECT_EQ(ask("completion", "mode:|")[1]["textEdit"]["newText"], " bf16");
  EXPECT_EQ(ask("completion", "mode = |", "r.toml")[1]["textEdit"]["newText"], "\"bf16\"");
  EXPECT_EQ(ask("completion", "mode = \"b|\"", "r.toml")[1]["textEdit"]["newText"], "bf16");
  EXPECT_EQ(ask("completion", "loader = {shuffle = |}", "r.toml")[0]["textEdit"]["newText"],
            "true");
}

TEST_F(LanguageServerTest, TheTypeMayComeFromAnIncludedFile) {
  folder_.write("base.yaml", "train: {type: counting, path: a}\n");
  EXPECT_EQ(words("include: base.yaml\ntrain: {|}\n"), "size, widths");
}

TEST_F(LanguageServerTest, HoverTellsOptionAndComponent) {
  EXPECT_EQ(ask("hover", "loader: {wor|kers: 2}"), Json::parse(R"({
    "contents": {"kind": "markdown", "value":
      "**loader.workers**: a whole number; between 0 and 8; default 2\n\nThreads.\n\nA resumed run accepts another value with `--allow`."},
    "range": {"start": {"line": 0, "character": 9}, "end": {"line": 0, "character": 16}}})"));
  EXPECT_EQ(ask("hover", "train: {type: coun|ting}")["contents"]["value"],
            "**train.type**: which dataset\n\n`counting`: Counts.");
  EXPECT_EQ(ask("hover", "tr|ain: counting")["contents"]["value"],
            "**train**: a dataset; required\n\nData.\n\nA resumed run accepts another value with "
            "`--allow`.\n\n`counting`: Counts.");
  EXPECT_TRUE(ask("hover", "nothing: |x").is_null());
  EXPECT_TRUE(ask("hover", "train: counting #| x").is_null());
}

TEST_F(LanguageServerTest, AnIncludeLeadsToItsFile) {
  folder_.write("base.yaml", "lr: 0.5\n");
  for (const char* name : {"ba|se.yaml", "builtin:ba|se"}) {
    EXPECT_EQ(ask("definition", std::string("include: [\"") + name + "\"]")["uri"],
              uri("base.yaml"));
  }
  EXPECT_TRUE(ask("definition", "include: no|ne.yaml").is_null());
  EXPECT_TRUE(ask("definition", "incl|ude: base.yaml").is_null());
  EXPECT_TRUE(ask("definition", "include: [[a|]]").is_null());
}

TEST_F(LanguageServerTest, BadMessagesAreAnsweredAndChangeNothing) {
  const auto raw = [this](const std::string& text) {
    const std::vector<std::string> answers = server_.receive(text);
    return answers.empty() ? Json() : Json::parse(answers[0])["error"];
  };
  EXPECT_EQ(raw("{"), Json({{"code", -32700}, {"message", "the message is not JSON"}}));
  EXPECT_EQ(raw("[]"), Json({{"code", -32700}, {"message", "the message is not a JSON object"}}));
  EXPECT_EQ(raw(R"({"id": 1, "id": 2})"),
            Json({{"code", -32700}, {"message", "the message has \"id\" twice"}}));
  EXPECT_EQ(raw(R"({"id": 1})"),
            Json({{"code", -32600}, {"message", "the message has no method"}}));
  EXPECT_EQ(raw(R"({"id": 1, "result": null})"), Json()) << "an answer to nothing";
  EXPECT_EQ(raw(R"({"id": 1, "method": "x"})"),
            Json({{"code", -32601}, {"message", "there is no method 'x'"}}));
  EXPECT_EQ(raw(R"({"method": "$/cancelRequest", "params": {"id": 1}})"), Json());
  const Json wrong = {{"code", -32602}, {"message", "invalid parameters of 'textDocument/hover'"}};
  EXPECT_EQ(raw(R"({"id": 1, "method": "textDocument/hover", "params": []})"), wrong);
  EXPECT_EQ(raw(R"({"id": 1, "method": "textDocument/hover"})"), wrong);
  EXPECT_EQ(
      raw(R"({"id": 1, "method": "textDocument/hover", "params": {"textDocument": {"uri": "x"},
                    "position": {"line": -1, "character": 1e300}}})"),
      Json({{"code", -32602}, {"message", "a position needs two whole numbers"}}));
  EXPECT_EQ(raw(R"({"method": "textDocument/didOpen", "params": {"textDocument": 3}})"), Json());
  EXPECT_TRUE(server_.publish().empty());
}

TEST_F(LanguageServerTest, ChecksAnyNumberOfSmallFiles) {
  for (int i = 0; i < 200; ++i) open(std::to_string(i) + ".yaml", "train: counting\nlr: 2\n");
  EXPECT_EQ(server_.publish().size(), 200u);
  open("150.yaml", "train: counting\nlr: 0.5\n");
  EXPECT_EQ(server_.publish().size(), 1u) << "the others do not depend on it";
}

TEST_F(LanguageServerTest, SaysWhichFilesAreNotChecked) {
  const auto notice = [](const std::string& text) {
    return Json::parse(R"([{"severity": 3, "source": "accel-run", "message": ")" + text + R"(",
     "range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}}])");
  };
  const std::string recipe = "train: {type: counting, path: x}\nlr: 0.5\n";
  open("large.yaml", recipe + std::string(1 << 20, '\n'));
  EXPECT_EQ(published("large.yaml"), notice("not checked: larger than 1 MiB"));
  open("large.yaml", recipe);
  EXPECT_EQ(published("large.yaml"), Json::array());
  open("large.yaml", recipe + std::string(1 << 20, '\n'));
  EXPECT_EQ(published("large.yaml"), notice("not checked: larger than 1 MiB"));
  open("services.yaml", std::string((1 << 20) + 1, ' '));
  EXPECT_TRUE(server_.publish().empty()) << "no recipe";

  const std::string full(1 << 20, ' ');
  for (int i = 0; i < 64; ++i) open(std::to_string(i) + ".yaml", full);
  EXPECT_EQ(published("63.yaml"), Json::array());
  open("more.yaml", recipe);
  EXPECT_EQ(published("more.yaml"), notice("not checked: the open files exceed 64 MiB"));
  open("63.yaml", full);
  EXPECT_EQ(published("63.yaml"), Json::array()) << "its earlier text does not count";
}

TEST_F(LanguageServerTest, EndsAsItIsTold) {
  notify("exit", Json::object());
  EXPECT_TRUE(server_.ended());
  EXPECT_FALSE(server_.ended_well());
  EXPECT_TRUE(request("shutdown", Json::object())["result"].is_null());
  EXPECT_EQ(request("textDocument/hover", Json::object())["error"]["message"],
            "only 'exit' may follow 'shutdown'");
  EXPECT_TRUE(server_.ended_well());
}

TEST(LanguageServerStartTest, WantsInitializeFirst) {
  const Registry registry;
  LanguageServer server({RecipeHelp({}, registry), "", {}, {}});
  const auto answers = server.receive(R"({"id": "a", "method": "shutdown"})");
  EXPECT_EQ(Json::parse(answers.at(0)), Json::parse(R"({"jsonrpc": "2.0", "id": "a",
                            "error": {"code": -32002, "message": "'initialize' must come first"}})"));
}

}  // namespace
}  // namespace accel::language_server_test
