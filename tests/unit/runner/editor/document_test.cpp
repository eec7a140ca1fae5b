#include "runner/editor/document.h"

#include <gtest/gtest.h>

namespace accel::document_test {
namespace {

TEST(EditorDocumentTest, CountsInUtf16) {
  const EditorDocument document{"", "", "a: 1\r\nö: 😀x\n\xff!"};
  EXPECT_EQ(document.offset_of({0, 3}), 3u);
  EXPECT_EQ(document.offset_of({0, 99}), 4u) << "the end of the line, not its line feed";
  EXPECT_EQ(document.offset_of({1, 1}), 8u) << "two bytes are one unit";
  EXPECT_EQ(document.offset_of({1, 5}), 14u) << "four bytes are two units";
  EXPECT_EQ(document.offset_of({2, 1}), 17u) << "a broken byte is one";
  EXPECT_EQ(document.offset_of({99, 0}), document.text.size());
  for (const size_t offset : {0u, 3u, 8u, 10u, 14u, 15u, 17u, 18u}) {
    EXPECT_EQ(document.offset_of(document.position_of(offset)), offset);
  }
  EXPECT_EQ(document.offset_at(2, 3), 8u);
  EXPECT_EQ(document.offset_at(0, 0), 0u);
  EXPECT_EQ(document.offset_at(99, 99), document.text.size());
}

TEST(EditorDocumentTest, PathsAndUrisAreEachOthersInverse) {
  EXPECT_EQ(path_of_uri("file:///a%20b/c%2B%c3%b6.yaml"), "/a b/c+ö.yaml");
  EXPECT_EQ(path_of_uri("file://localhost/a.yaml"), "/a.yaml");
  EXPECT_EQ(path_of_uri("file:///100%/a%zz"), "/100%/a%zz");
  EXPECT_EQ(path_of_uri("file:///a%00b"), "");
  EXPECT_EQ(path_of_uri("untitled:Untitled-1"), "");
  EXPECT_EQ(uri_of_path("/a b/c+ö.yaml"), "file:///a%20b/c%2B%C3%B6.yaml");
  EXPECT_EQ(path_of_uri(uri_of_path("/a%20b")), "/a%20b");
}

TEST(EditorDocumentTest, KnowsRecipesFromOtherFiles) {
  for (const char* text : {"model: mlp", "# a note\ndata!: {}", "[train]\nbatch = 3",
                           "[data.train]", "train = {}", "recipe: 1\n", "name: x\noptimizer :\n"}) {
    EXPECT_TRUE(looks_like_recipe(text)) << text;
  }
  for (const char* text : {"", "\n\n", "services:\n  model: mlp\n", "models: 3", "model",
                           "trainer: x", "name: model\n"}) {
    EXPECT_FALSE(looks_like_recipe(text)) << text;
  }
}

}  // namespace
}  // namespace accel::document_test
