#include "data/store/data_path.h"

#include <gtest/gtest.h>

#include "core/recipe/node.h"
#include "core/recipe/registry.h"
#include "data/store/streaming_section.h"

namespace accel {
namespace {

/// The path, or the error and its hint.
std::string data_path(const std::string& text) {
  Registry registry;
  Diagnostics problems;
  Reading reading{problems, registry};
  const Node node = parse_recipe("recipe.yaml", "path: '" + text + "'");
  const auto path = Codec<DataPath>::read(node.find("path")->node, "path", reading);
  if (path) return path->text + (path->is_url() ? " is a URL" : "");
  return problems.list().front().message + "\n" + problems.list().front().hint;
}

TEST(DataPathTest, KeepsUrlsAndRefusesThoseWithSecrets) {
  const std::string recorded = "a recipe is recorded with its run";
  const std::pair<const char*, std::string> cases[] = {
      {"/a/../b", "/b"},
      {"s3://bucket/a/../b/", "s3://bucket/a/../b is a URL"},
      {"http://h:9/x", "http://h:9/x is a URL"},
      {"gs://bucket/x",
       "'path' is the URL 'gs://bucket/x' of an unknown protocol\n"
       "use https://, http:// or s3://BUCKET/PREFIX"},
      {"https://me:pass@h/x",
       "'path' is the URL 'https://h/x' with a user name or password\n" + recorded +
           ": keep them in ~/.netrc, or for s3:// in AWS's variables or files"},
      {"https://h/x?X-Amz-Signature=1",
       "'path' is the URL 'https://h/x' with a query\n" + recorded +
           ", and a query may hold a signature: use s3://BUCKET/PREFIX with AWS's variables, or a "
           "URL without a query"},
      {"s3://",
       "'path' is the URL 's3://' without a host or bucket\n"
       "use https://HOST/PATH or s3://BUCKET/PREFIX"},
  };
  for (const auto& [text, wanted] : cases) EXPECT_EQ(data_path(text), wanted);
}

}  // namespace
}  // namespace accel
