#include "runner/editor/document.h"

#include <gtest/gtest.h>

namespace accel::recipe_cursor_test {
namespace {

struct CursorCase {
  const char* syntax;
  const char* text;   ///< the cursor is at the bar
  const char* place;  ///< "a.b key [word]"; "" for none
};

std::string shown(const std::optional<RecipeCursor>& cursor, const std::string& text) {
  if (!cursor) return "";
  std::string out;
  for (const std::string& word : cursor->path) out += (out.empty() ? "" : ".") + word;
  return out + (cursor->key ? " key [" : " value [") +
         text.substr(cursor->begin, cursor->end - cursor->begin) + "]";
}

constexpr CursorCase kCursors[] = {
    {"yaml", "|", " key []"},
    {"yaml", "model: mlp\nopt|\n", " key [opt]"},
    {"yaml", "op|tim: 3\n", " key [optim]"},
    {"yaml", "model:\n  ty|\n", "model key [ty]"},
    {"yaml", "model:\n  type: mlp\n  |\ndata: x\n", "model key []"},
    {"yaml", "model: |\n", "model value []"},
    {"yaml", "model:|\n", "model value []"},
    {"yaml", "model: ml|\ndata: x\n", "model value [ml]"},
    {"yaml", "model: {type: ml|, a: 1}\n", "model.type value [ml]"},
    {"yaml", "model: {type: \"ml|\"}\n", "model.type value [ml]"},
    {"yaml", "model: {type: mlp, hi|\n", "model key [hi]"},
    {"yaml", "model: {type: mlp, |}\ndata: {\n", "model key []"},
    {"yaml", "data:\n  train: {type: idx,\n    im|\n", "data.train key [im]"},
    {"yaml", "eval: {metrics: [accuracy, f|]}\n", "eval.metrics.1 key [f]"},
    {"yaml", "metrics:\n  - acc|\n", "metrics.0 key [acc]"},
    {"yaml", "metrics:\n  - type: acc|\n", "metrics.0.type value [acc]"},
    {"yaml", "a: 1\nb: [1, 2\nc: d|\n", ""},
    {"yaml", "a: d|\nb: [1, 2\n", "a value [d]"},
    {"yaml", "a: 1 # no|te\n", ""},
    {"yaml", "data: {train: synthetic/gl|}\n", "data.train value [synthetic/gl]"},
    {"yaml", "a: '#|'\n", "a value []"},
    {"toml", "|", " key []"},
    {"toml", "mod|\n", " key [mod]"},
    {"toml", "[opt|]\n", " key [opt]"},
    {"toml", "[opt|", " key [opt]"},
    {"toml", "[data.tr|]\n", "data key [tr]"},
    {"toml", "[model]\ntype = \"mlp\"\nhi|\n", "model key [hi]"},
    {"toml", "train.ba|\n", "train key [ba]"},
    {"toml", "[data]\npath = \"a.b|\"\n", "data.path value [a.b]"},
    {"toml", "[model]\ntype = |\n", "model.type value []"},
    {"toml", "[model]\ntype = \"ml|\"\n", "model.type value [ml]"},
    {"toml", "model = {type = \"mlp\", h|\n", "model key [h]"},
    {"toml", "[[callbacks]]\nty|\n", "callbacks.0 key [ty]"},
};

TEST(RecipeCursorTest, TellsWhatIsTyped) {
  for (const CursorCase& each : kCursors) {
    std::string text = each.text;
    const size_t offset = text.find('|');
    text.erase(offset, 1);
    EXPECT_EQ(shown(find_cursor(std::string("r.") + each.syntax, text, offset), text), each.place)
        << each.text;
  }
}

TEST(RecipeCursorTest, SeesAColonThatWantsASpace) {
  EXPECT_TRUE(find_cursor("r.yaml", "model:", 6)->touches_colon);
  EXPECT_FALSE(find_cursor("r.yaml", "model: ", 7)->touches_colon);
}

constexpr CursorCase kWords[] = {
    {"yaml", "mod|el: mlp\n", "model key [model]"},
    {"yaml", "model: m|lp\n", "model value [mlp]"},
    {"yaml", "model: {type: mlp, hid|den: [3]}\n", "model.hidden key [hidden]"},
    {"yaml", "model: {hidden: [10, 2|0]}\n", "model.hidden.1 value [20]"},
    {"yaml", "include: [a.yaml, 'b|.yaml']\n", "include.1 value ['b.yaml']"},
    {"yaml", "callbacks|+: [ema]\n", "callbacks+ key [callbacks+]"},
    {"yaml", "model: mlp  |\n", ""},
    {"yaml", "mod|el: mlp\ndata: [\n", "model key [model]"},
    {"toml", "[model]\nty|pe = \"mlp\"\n", "model.type key [type]"},
    {"toml", "[model]\ntype = \"ml|p\"\n", "model.type value [\"mlp\"]"},
};

TEST(RecipeWordTest, FindsWhatIsThere) {
  for (const CursorCase& each : kWords) {
    std::string text = each.text;
    const size_t offset = text.find('|');
    text.erase(offset, 1);
    const auto word = find_word(std::string("r.") + each.syntax, text, offset);
    std::optional<RecipeCursor> as_cursor;
    if (word)
      as_cursor = RecipeCursor{word->path, word->key, word->begin, word->end, false, "", {}};
    EXPECT_EQ(shown(as_cursor, text), each.place) << each.text;
  }
}

}  // namespace
}  // namespace accel::recipe_cursor_test
