#include "runner/plugin/plugin_set.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>

#include "core/api/dataset.h"
#include "core/api/plugin_abi.h"
#include "core/base/digest.h"
#include "formats/program/elf.h"
#include "tests/unit/runner/plugin/temporary_folder.h"

namespace accel::plugin_set_test {
namespace {

/// `text` with every `from` replaced by `to`, which must be as long.
std::string patched(std::string text, const std::string& from, const std::string& to) {
  EXPECT_EQ(from.size(), to.size());
  EXPECT_NE(text.find(from), text.npos) << from;
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

PluginManifest manifest_of(const std::string& bytes) {
  return {"example/spirals",
          "0.1.0",
          "MIT",
          1,
          digest_of(Digest::Kind::kSha256, bytes),
          {{"dataset", "example/spirals", "", {}}}};
}

/// Writes a plugin of these bytes and a manifest that fits; its path.
std::string put(const TemporaryFolder& folder, const std::string& bytes,
                const std::string& name = "a.so") {
  folder.write(name + ".toml", write_plugin_manifest(manifest_of(bytes)));
  return folder.write(name, bytes);
}

/// What add() says, with the folder left out, and its hint behind a bar.
std::string refusal(const TemporaryFolder& folder, const std::function<void()>& act) {
  std::string text = "none";
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRecipe) << error.what();
    text = std::string(error.what()) + " | " + error.hint();
  }
  const std::string base = folder.path("");
  for (size_t at; (at = text.find(base)) != text.npos;) text.erase(at, base.size());
  const std::string bare = base.substr(0, base.size() - 1);
  for (size_t at; (at = text.find(bare)) != text.npos;) text.replace(at, bare.size(), ".");
  return text;
}

/// Enters a dataset's name and nothing more.
void enter_name(const DescribedComponent& component, Registry& registry) {
  registry.of<Dataset>().add(info_of(component),
                             [](const Node&, Reading&) { return Ref<Dataset>{}; });
}

std::string refusal_of(const TemporaryFolder& folder, const std::string& path,
                       EnterDescribed describe = nullptr) {
  return refusal(folder, [&] { PluginSet({}, describe).add(path); });
}

std::string value_here(const std::string& name) {
  const std::string abi = abi_here();
  const size_t begin = abi.find(name + ": ") + name.size() + 2;
  return abi.substr(begin, abi.find('\n', begin) - begin);
}

TEST(PluginSetTest, APipeIsNoPlugin) {
  const TemporaryFolder folder;
  const std::string pipe = folder.path("a.so");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refusal_of(folder, pipe),
            "plugin 'a.so' is not a regular file | name a file that ends in .so");
}

TEST(PluginSetTest, ALoadedPluginsComponentsWork) {
  const TemporaryFolder folder;
  PluginSet plugins{Registry()};
  plugins.add(put(folder, bytes_of_file(test_spirals)));
  ASSERT_EQ(plugins.identities().size(), 1U);
  EXPECT_EQ(plugins.identities()[0].name, "example/spirals");
  EXPECT_EQ(plugins.identities()[0].version, "0.1.0");
  EXPECT_EQ(plugins.identities()[0].sha256,
            digest_of(Digest::Kind::kSha256, bytes_of_file(test_spirals)));

  Diagnostics problems;
  Reading reading{problems, plugins.registry()};
  const auto ref = plugins.registry().of<Dataset>().prepare(
      parse_recipe("r.yaml", "{type: example/spirals, length: 7, arms: 3}"), reading);
  ASSERT_TRUE(ref);
  const auto data = ref.make({5, true});
  EXPECT_EQ(data->size(), 7);
  EXPECT_EQ(data->shape().classes, 3);
  EXPECT_EQ(data->sample(4).target.as<int64_t>()[0], 1);
  EXPECT_EQ(data->sample(4).input.shape(), Shape{2});
}

TEST(PluginSetTest, APluginIsDescribedAsItIsLoaded) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.so", bytes_of_file(test_spirals));
  const std::vector<DescribedComponent> components = load_and_describe(path);
  ASSERT_EQ(components.size(), 1U);
  EXPECT_EQ(components[0].kind, "dataset");
  EXPECT_EQ(components[0].name, "example/spirals");
  ASSERT_EQ(components[0].options.size(), 4U);
  EXPECT_EQ(components[0].options[1].rule, "between 2 and 16");
}

TEST(PluginSetTest, WhatWasBuiltForSomethingElseIsRefusedBeforeItIsLoaded) {
  const std::string good = bytes_of_file(test_spirals);
  const std::string api = "plugin API: 1\n", headers = "headers: " + value_here("headers");
  const std::string torch = "libtorch: " + value_here("libtorch");
  const std::string compiler = "compiler: " + value_here("compiler");
  const auto other = [](std::string line, size_t from_end) {
    line[line.size() - from_end] = line[line.size() - from_end] == '7' ? '8' : '7';
    return line;
  };
  const auto reported = [](const std::string& line) {
    return line.substr(0, line.find(": ")) + line.substr(line.find(": ") + 1);
  };
  const auto message = [&](const std::string& theirs, const std::string& ours) {
    return "plugin 'a.so' was built with " + reported(theirs) + ", and this accel-run with " +
           ours.substr(ours.find(": ") + 2) + " | rebuild it: accel-run plugin build .";
  };
  for (const std::string& line : {headers, torch, compiler}) {
    const TemporaryFolder folder;
    const std::string changed = other(line, 1);
    const std::string path = put(folder, patched(good, line, changed));
    EXPECT_EQ(refusal_of(folder, path), message(changed, line));
    EXPECT_EQ(refusal_of(folder, path, &enter_name), message(changed, line));
  }
  const TemporaryFolder folder;
  EXPECT_EQ(refusal_of(folder, put(folder, patched(good, api, "plugin API: 7\n"))),
            "plugin 'a.so' was built with plugin API 7, and this accel-run with 1 | rebuild it: "
            "accel-run plugin build .");
  EXPECT_EQ(refusal_of(folder, put(folder, patched(good, api, "plugin ABI: 1\n"))),
            "plugin 'a.so' was built with plugin API none, and this accel-run with 1 | rebuild it: "
            "accel-run plugin build .");
}

TEST(PluginSetTest, WhatIsNoPluginIsRefused) {
  const std::string good = bytes_of_file(test_spirals);
  std::string foreign = good;
  foreign[18] = 40;
  const std::string anew = " | rebuild it: accel-run plugin build .";
  const std::string how = " | build it with 'accel-run plugin build' or accel_add_plugin()";
  const struct {
    std::string bytes;
    std::string message;
  } cases[] = {
      {"", "plugin 'a.so' is not a shared object: it is not an ELF file" + anew},
      {"#!/bin/sh\n", "plugin 'a.so' is not a shared object: it is not an ELF file" + anew},
      {good.substr(0, good.size() - 100),
       "plugin 'a.so' is not a shared object: it ends before its section table" + anew},
      {foreign, "plugin 'a.so' was built for machine 40, and this machine is " +
                    elf_machine_name(elf_machine_here()) +
                    " | build it here: accel-run plugin build ."},
      {patched(good, ".accel_plugin", ".accel_plumin"),
       "'a.so' is not a plugin of accel-run: it has no section '.accel_plugin'" + how},
      {patched(good, "accel_plugin_enter", "accel_plugin_entry"),
       "plugin 'a.so' does not export 'accel_plugin_enter'" + how},
      {patched(good, "_ZN5accel9SampleRng7uniformEv", "_ZN5accel9SampleRng7unifornEv"),
       "plugin 'a.so' needs 'accel::SampleRng::uniforn()', which neither accel-run nor libtorch "
       "has | define it in one of the plugin's sources"},
  };
  for (const auto& [bytes, message] : cases) {
    const TemporaryFolder folder;
    EXPECT_EQ(refusal_of(folder, put(folder, bytes)), message);
  }
}

TEST(PluginSetTest, WhatInitialisersDoEndsNoMoreThanThem) {
  const struct {
    const char* fault;
    const char* message;
  } cases[] = {
      {"error", "threw while it was loaded: no luck"},
      {"number", "threw while it was loaded: an unknown exception"},
      {"abort", "ended the process by signal 6 while it was loaded"},
  };
  for (const auto& [fault, message] : cases) {
    const TemporaryFolder folder;
    setenv("ACCEL_TEST_FAULT", fault, 1);
    EXPECT_EQ(refusal_of(folder, put(folder, bytes_of_file(test_faulty))),
              std::string("plugin 'a.so' ") + message +
                  " | move code that can fail into the constructors of its components");
    unsetenv("ACCEL_TEST_FAULT");
  }
  const TemporaryFolder folder;
  EXPECT_EQ(
      refusal(folder, [&] { load_and_describe(folder.write("a.so", bytes_of_file(test_faulty))); }),
      "plugin 'a.so' registers no component | end its source with 'const Register<T> name;'");
}

TEST(PluginSetTest, AFileThatOthersCouldChangeIsRefused) {
  const std::string good = bytes_of_file(test_spirals);
  const auto refused = [](const std::string& name) {
    return "'" + name +
           "' is writable by every user of this machine: code is not loaded from it"
           " | chmod o-w '" +
           name + "'";
  };
  for (const std::string name : {"a.so", "a.so.toml"}) {
    const TemporaryFolder folder;
    const std::string path = put(folder, good);
    chmod(folder.path(name).c_str(), 0646);
    EXPECT_EQ(refusal_of(folder, path), refused(name));
  }
  const TemporaryFolder folder;
  mkdir(folder.path("open").c_str(), 0700);
  const std::string path = put(folder, good, "open/a.so");
  chmod(folder.path("open").c_str(), 0777);
  EXPECT_EQ(refusal_of(folder, path), refused("open"));
  chmod(folder.path("open").c_str(), 01777);
  EXPECT_EQ(refusal_of(folder, path), "none");
}

TEST(PluginSetTest, AMissingFileOrAManifestOfAnotherIsRefused) {
  const std::string good = bytes_of_file(test_spirals);
  const TemporaryFolder folder;
  EXPECT_EQ(refusal_of(folder, folder.path("b.so")),
            "there is no plugin 'b.so' | build it: accel-run plugin build .");
  EXPECT_EQ(refusal_of(folder, folder.path("")),
            "plugin '' is a folder | name the file in it that ends in .so");
  const std::string path = folder.write("a.so", good);
  EXPECT_EQ(
      refusal_of(folder, path),
      "plugin 'a.so' has no manifest 'a.so.toml' | write one: accel-run plugin describe a.so");
  put(folder, good);
  folder.write("a.so", good + "x");
  EXPECT_EQ(refusal_of(folder, path),
            "plugin 'a.so' does not match its manifest | rebuild it: "
            "accel-run plugin build .");
}

TEST(PluginSetTest, ANameThatTheManifestHidesIsRefused) {
  const TemporaryFolder folder;
  const std::string good = bytes_of_file(test_spirals);
  const std::string a = put(folder, good), b = put(folder, good, "b.so");
  PluginManifest silent = manifest_of(good);
  silent.name = "example/other";
  silent.components.clear();
  folder.write("b.so.toml", write_plugin_manifest(silent));
  PluginSet plugins{Registry()};
  plugins.add(a);
  EXPECT_EQ(refusal(folder, [&] { plugins.add(b); }),
            "plugin 'b.so' cannot be entered: two datasets are named 'example/spirals' | describe "
            "it again: accel-run plugin describe b.so");
}

TEST(PluginSetTest, NamesThatAreThereAlreadyAreRefused) {
  const std::string good = bytes_of_file(test_spirals);
  const TemporaryFolder folder;
  const std::string a = put(folder, good), b = put(folder, good, "b.so");
  for (const EnterDescribed use : {&enter_name, EnterDescribed(nullptr)}) {
    PluginSet plugins({}, use);
    plugins.add(a);
    EXPECT_EQ(refusal(folder, [&] { plugins.add(b); }),
              "plugin 'b.so' has the same name 'example/spirals' as another plugin | leave one of "
              "the two "
              "out");
    PluginManifest renamed = manifest_of(good);
    renamed.name = "example/others";
    folder.write("b.so.toml", write_plugin_manifest(renamed));
    EXPECT_EQ(
        refusal(folder, [&] { plugins.add(b); }),
        "plugin 'b.so' registers the dataset 'example/spirals', which plugin 'a.so' also registers "
        "| leave one of the two out, or rename the component");
    PluginSet built_in(plugins.registry(), use);
    EXPECT_EQ(refusal(folder, [&] { built_in.add(a); }),
              "plugin 'a.so' registers the dataset 'example/spirals', which accel-run itself also "
              "registers "
              "| leave one of the two out, or rename the component");
    renamed.name = "acme/spirals";
    folder.write("b.so.toml", write_plugin_manifest(renamed));
    EXPECT_EQ(
        refusal_of(folder, b, use),
        "plugin 'b.so' registers the dataset 'example/spirals', which is not named 'acme/...' | "
        "give it another kName");
    put(folder, good, "b.so");
  }
}

}  // namespace
}  // namespace accel::plugin_set_test
