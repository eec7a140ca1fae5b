#include "runner/plugin/manifest.h"

#include <gtest/gtest.h>

#include "tests/unit/runner/plugin/temporary_folder.h"

namespace accel::manifest_test {
namespace {

PluginManifest some_manifest() {
  DescribedOption width;
  width.name = "width";
  width.type = "a whole number";
  width.fallback = "8";
  width.help = "How \"wide\", \\ and\nmore.";
  width.rule = "at least 1";
  width.json = "\"type\": \"integer\", \"minimum\": 1";
  width.change = Change::kImpossible;
  DescribedOption section;
  section.name = "inner";
  section.type = "a section";
  section.required = true;
  section.fields = {width};
  return {"acme/net",
          "0.1.0",
          "MIT",
          1,
          std::string(64, 'a'),
          {{"model", "acme/net", "A net.", {width, section}}, {"task", "acme/loss", "", {}}}};
}

std::string complaint(const std::string& name, const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = folder.write(name, text);
  try {
    if (name == "plugin.toml") {
      read_plugin_source(path);
    } else {
      read_plugin_manifest(path);
    }
  } catch (const RecipeError& error) {
    std::string out;
    for (const Diagnostic& d : error.diagnostics()) {
      out += std::to_string(d.where.line) + ": " + d.message + "; ";
    }
    return out;
  }
  return "none";
}

TEST(PluginManifestTest, WhatIsWrittenReadsBack) {
  const TemporaryFolder folder;
  const std::string text = write_plugin_manifest(some_manifest());
  const PluginManifest back = read_plugin_manifest(folder.write("net.so.toml", text));
  EXPECT_EQ(write_plugin_manifest(back), text);
  ASSERT_EQ(back.components.size(), 2U);
  const ComponentInfo info = info_of(back.components[0]);
  ASSERT_EQ(info.fields.size(), 2U);
  EXPECT_EQ(info.fields[0].help, "How \"wide\", \\ and\nmore.");
  EXPECT_EQ(info.fields[0].change, Change::kImpossible);
  EXPECT_TRUE(info.fields[1].required);
  EXPECT_EQ(info.fields[1].fields[0].json, "\"type\": \"integer\", \"minimum\": 1");
}

TEST(PluginManifestTest, EachFaultIsNamed) {
  const std::string good =
      "name = \"acme/net\"\nversion = \"1\"\nlicence = \"MIT\"\napi = 1\nsources = [\"a.cpp\"]\n";
  const struct {
    const char* file;
    std::string text;
    const char* message;
  } cases[] = {
      {"plugin.toml", good, "none"},
      {"plugin.toml", good + "author = \"me\"\n", "6: unknown option 'author'; "},
      {"plugin.toml", good.substr(good.find("version")), "1: 'name' is missing; "},
      {"plugin.toml", "name = \"net\"\n" + good.substr(good.find("version")),
       "1: 'name' must be 'vendor/name', of lower-case letters, digits, '_', '-' and '.', not "
       "'net'; "},
      {"plugin.toml",
       "name = \"acme/net\"\nversion = \"1\"\nlicence = \"\"\napi = 2\nsources = [\"a.cpp\"]\n",
       "3: 'licence' must be a text, not ''; 4: 'api' must be one of 1, not 2; "},
      {"net.so.toml",
       "name = \"acme/net\"\nversion = \"1\"\nlicence = \"MIT\"\napi = 1\nsha256 = \"12\"\n",
       "5: 'sha256' must be 64 hexadecimal digits, not '12'; "},
      {"plugin.toml", "name = \"accel/net\"\n" + good.substr(good.find("version")),
       "1: the vendor 'accel' is reserved for accel-run; "},
      {"net.so.toml",
       "name = \"accel/net\"\nversion = \"1\"\nlicence = \"MIT\"\napi = 1\nsha256 = \"" +
           std::string(64, 'a') + "\"\n",
       "1: the vendor 'accel' is reserved for accel-run; "},
      {"net.so.toml", "name = [", "1: "},
  };
  for (const auto& [file, text, message] : cases) {
    const std::string found = complaint(file, text);
    EXPECT_EQ(
        found.substr(
            0, found.starts_with("1: ") && std::string(message) == "1: " ? 3 : std::string::npos),
        message);
  }
}

TEST(PluginManifestTest, NamesAreAVendorAndAName) {
  for (const char* good : {"acme/net", "a/b", "a1/b_c-d.e", "0/0"}) {
    EXPECT_TRUE(is_vendor_name(good)) << good;
  }
  for (const char* bad : {"", "net", "acme/", "/net", "acme/a/b", "Acme/net", "acme/_net",
                          "acme/n et", "../net", "acme/.."}) {
    EXPECT_FALSE(is_vendor_name(bad)) << bad;
  }
  EXPECT_FALSE(is_vendor_name("acme/" + std::string(60, 'a')));
  EXPECT_EQ(vendor_of("acme/net"), "acme");
}

}  // namespace
}  // namespace accel::manifest_test
