#include "runner/plugin/build.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/base/digest.h"
#include "runner/plugin/plugin_set.h"
#include "tests/unit/runner/plugin/temporary_folder.h"

namespace accel::build_test {
namespace {

constexpr auto kSource =
    "name = \"example/spirals\"\nversion = \"0.1.0\"\nlicence = \"MIT\"\napi = 1\n"
    "sources = [\"a.cpp\", \"b.cpp\"]\n";

/// What `act` says, with the folder left out, and its hint behind a bar.
std::string refusal(const TemporaryFolder& folder, const std::function<void()>& act) {
  std::string text = "none";
  try {
    act();
  } catch (const Error& error) {
    text = std::string(error.what()) + " | " + error.hint();
  }
  for (size_t at; (at = text.find(folder.path(""))) != text.npos;) {
    text.erase(at, folder.path("").size());
  }
  return text;
}

std::string examples() {
  return std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/plugins";
}

TEST(PluginBuildTest, TheCommandHasTheRightHeadersAndAllSources) {
  const PluginTools tools{"g++", "/sdk", {"/torch"}};
  const TemporaryFolder folder;
  const PluginSource source = read_plugin_source(folder.write("plugin.toml", kSource));
  std::string line;
  for (const std::string& word : compile_command(tools, source, "f", "f/x.so")) line += word + " ";
  EXPECT_EQ(line,
            "g++ -std=c++20 -O2 -DNDEBUG -fPIC -shared -Wall -fvisibility=hidden -I /sdk -isystem "
            "/torch f/a.cpp f/b.cpp /sdk/plugin_entry.cpp -o f/x.so ");
}

TEST(PluginBuildTest, TheHeadersMustBeNearTheProgram) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal(folder, [&] { find_plugin_tools(folder.path("bin"), std::nullopt); }),
            "accel-run's headers are not in 'bin' or above it | reinstall accel-run with its "
            "'include' folder");
}

TEST(PluginBuildTest, WhatCannotBeBuiltLeavesNothing) {
  const TemporaryFolder folder;
  const std::string here = folder.path("");
  const auto build = [&](const std::string& compiler) {
    return refusal(folder, [&] { build_plugin(here, {compiler, here, {}}); });
  };
  EXPECT_EQ(build("true"),
            "cannot read the manifest 'plugin.toml' | 'accel-run plugin new' writes one");
  folder.write("plugin.toml", kSource);
  folder.write("a.cpp", "");
  EXPECT_EQ(build("true"), "there is no source 'b.cpp' | correct 'sources' in 'plugin.toml'");
  folder.write("b.cpp", "");
  EXPECT_EQ(build("false"),
            "the compiler exited with 1: no plugin was built | correct the errors above");
  EXPECT_EQ(build("no-such-compiler"),
            "cannot start the compiler 'no-such-compiler': No such file or directory | set CXX to "
            "another compiler");
  EXPECT_EQ(build("true"),
            "there is no plugin 'spirals.so.new' | build it: accel-run plugin build " +
                here.substr(0, here.size() - 1));
  EXPECT_FALSE(std::filesystem::exists(folder.path("spirals.so")));
}

/// A compiler that gives one file, whatever it is given.
std::string compiler_that_gives(const TemporaryFolder& folder, const std::string& file) {
  const std::string path =
      folder.write("compiler", "#!/bin/sh\nfor last; do :; done\ncp '" + file + "' \"$last\"\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

/// Has a plugin.toml and its sources.
void put_sources(const TemporaryFolder& folder) {
  folder.write("plugin.toml", kSource);
  folder.write("a.cpp", "");
  folder.write("b.cpp", "");
}

TEST(PluginBuildTest, WhatIsBuiltIsLoadedAndDescribed) {
  const TemporaryFolder folder;
  put_sources(folder);
  const std::string compiler = compiler_that_gives(folder, test_spirals);
  const auto built = build_plugin(folder.path(""), {compiler, "sdk", {}});
  EXPECT_EQ(built.path, folder.path("spirals.so"));
  EXPECT_EQ(inspect_plugin(built.path).components.size(), 1U);
}

TEST(PluginBuildTest, WhatDoesNotLoadLeavesTheOldOneInItsPlace) {
  const TemporaryFolder folder;
  put_sources(folder);
  const std::string path = folder.write("spirals.so", bytes_of_file(test_spirals));
  describe_plugin(path, folder.path("plugin.toml"));
  const std::string compiler = compiler_that_gives(folder, test_faulty);
  EXPECT_EQ(
      refusal(folder,
              [&] {
                build_plugin(folder.path(""), {compiler, "sdk", {}});
              }),
      "plugin 'spirals.so.new' registers no component | end its source with 'const Register<T> "
      "name;'");
  EXPECT_EQ(inspect_plugin(path).components.size(), 1U);
  EXPECT_FALSE(std::filesystem::exists(folder.path("spirals.so.new")));
}

TEST(PluginBuildTest, APluginThatWasBuiltElsewhereIsDescribed) {
  const TemporaryFolder folder;
  const std::string bytes = bytes_of_file(test_spirals);
  const std::string path = folder.write("s.so", bytes);
  const BuiltPlugin built = describe_plugin(path, folder.write("plugin.toml", kSource));
  EXPECT_EQ(built.manifest.sha256, digest_of(Digest::Kind::kSha256, bytes));
  const PluginManifest read = inspect_plugin(path);
  EXPECT_EQ(read.name, "example/spirals");
  ASSERT_EQ(read.components.size(), 1U);
  EXPECT_EQ(read.components[0].options.size(), 4U);

  std::string other = kSource;
  other.replace(other.find("example"), 7, "acme");
  folder.write("plugin.toml", other);
  EXPECT_EQ(refusal(folder, [&] { describe_plugin(path, folder.path("plugin.toml")); }),
            "the dataset 'example/spirals' is in the plugin 'acme/spirals' of another vendor | "
            "name it 'acme/...'");
}

TEST(PluginScaffoldTest, NamesOfFilesAndClassesFollow) {
  EXPECT_EQ(identifier_of("acme/my-net.2"), "my_net_2");
  EXPECT_EQ(class_name_of("acme/my-net.2"), "MyNet2");
  EXPECT_EQ(class_name_of("acme/net"), "Net");
}

TEST(PluginScaffoldTest, ANewPluginHasNothingOfTheExamplesName) {
  for (const std::string& kind : example_kinds(examples())) {
    const TemporaryFolder folder;
    const std::string target = folder.path("x");
    const auto files = new_plugin(examples(), {kind, "acme/my-own", target, "/a $dear }/run"});
    // The recipe of a reward function has prompts and a tokenizer beside it.
    EXPECT_EQ(files.size(), kind == "reward" ? 6U : 4U) << kind;
    EXPECT_TRUE(std::filesystem::exists(target + "/my_own.cpp")) << kind;
    const PluginSource source = read_plugin_source(target + "/plugin.toml");
    EXPECT_EQ(source.name, "acme/my-own");
    EXPECT_EQ(source.sources, std::vector<std::string>{"my_own.cpp"});
    for (const std::string& file : files) {
      EXPECT_EQ(bytes_of_file(file).find("example/"), std::string::npos) << file;
    }
    EXPECT_NE(bytes_of_file(target + "/my_own.cpp").find("class MyOwn final"), std::string::npos);
    EXPECT_NE(bytes_of_file(target + "/recipe.yaml").find("plugins: [my_own.so]"),
              std::string::npos)
        << kind;
    EXPECT_NE(bytes_of_file(target + "/test.sh")
                  .find("\naccel_run=\"${ACCEL_RUN:-/a \\$dear \\}/run}\"\n"),
              std::string::npos)
        << kind;
  }
}

TEST(PluginScaffoldTest, EveryKindHasAnExample) {
  const Registry registry;
  std::vector<std::string> kinds;
  for (const CatalogIndex* catalog : registry.all()) kinds.push_back(catalog->kind());
  for (const char* more : {"gan", "image_model", "reinforce", "two_tasks"})
    kinds.emplace_back(more);
  std::sort(kinds.begin(), kinds.end());
  EXPECT_EQ(example_kinds(examples()), kinds);
}

TEST(PluginScaffoldTest, NamesAndKindsThatWillNotDoAreRefused) {
  const TemporaryFolder folder;
  const auto make = [&](const std::string& kind, const std::string& name) {
    return refusal(folder, [&] { new_plugin(examples(), {kind, name, folder.path("x"), "run"}); });
  };
  EXPECT_EQ(make("modell", "acme/net"),
            "there is no example plugin of kind 'modell' | did you mean 'model'?");
  EXPECT_EQ(
      make("boat", "acme/net"),
      "there is no example plugin of kind 'boat' | there are callback, dataset, gan, image_model, "
      "metric, model, optimizer, reinforce, reward, scheduler, task, tracker, transform, "
      "two_tasks");
  for (const char* name : {"net", "acme/2net", "Acme/net", "acme/"}) {
    EXPECT_EQ(
        make("model", name),
        "'" + std::string(name) +
            "' is not a valid plugin name | write 'vendor/name', of lower-case letters, digits, "
            "'_', '-' and '.', with a letter after the '/'");
  }
  EXPECT_EQ(make("model", "accel/net"),
            "'accel/net' is not a valid plugin name: the vendor 'accel' is reserved for accel-run "
            "| use another vendor, such as your company or user name");
  EXPECT_EQ(make("model", "acme/net"), "none");
  EXPECT_EQ(make("model", "acme/net"),
            "'x' already exists | give another folder; nothing is overwritten");
}

}  // namespace
}  // namespace accel::build_test
