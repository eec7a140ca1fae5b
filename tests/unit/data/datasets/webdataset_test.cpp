// Texts in WebDataset's archives.
#include "formats/records/webdataset.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "data/datasets/skipped_samples.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/tar_writer.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::webdataset_test {
namespace {

/// The records of an archive, fields between bars; what is wrong with one in its place.
std::string records_in(const std::string& archive, const std::vector<std::string>& wanted) {
  WebdatasetReader reader(bytes_of(archive), wanted, "t.tar");
  std::string out;
  for (bool more = true; more;) {
    std::vector<std::string_view> fields;
    const std::string reported = complaint([&] { more = reader.next(fields); });
    if (!more && reported.empty()) break;
    out += reported.empty() ? reader.location() : reported;
    for (const std::string_view field : fields) out.append("|").append(field);
    out += "\n";
  }
  return out;
}

TEST(WebdatasetTest, MembersOfOneKeyAreASample) {
  const std::string archive =
      tar_member("a/1.txt", "good film\n") + tar_member("a/1.cls", "1\r\n") +
      tar_member("a/1.seg.PNG", "\xff") + tar_member("a/.hidden", "x") + tar_member("README", "x") +
      tar_member("b.c/1.cls", "0") + tar_member("b.c/1.txt", "") + tar_end();
  EXPECT_EQ(records_in(archive, {"txt", "cls"}), "t.tar:a/1|good film|1\nt.tar:b.c/1||0\n");
  EXPECT_EQ(records_in(tar_end(), {"txt"}), "");
}

TEST(WebdatasetTest, KeysOfAJsonFieldAreFields) {
  const std::string archive =
      tar_member("1.json", R"({"t": "good", "n": 0.5, "b": true, "l": [1]})") +
      tar_member("1.meta.json", R"({"t": "bad"})") + tar_member("1.json.n", "the member") +
      tar_end();
  EXPECT_EQ(records_in(archive, {"json.t", "json.b", "meta.json.t"}), "t.tar:1|good|true|bad\n");
  EXPECT_EQ(records_in(archive, {"json.n"}), "t.tar:1|the member\n");
  EXPECT_EQ(records_in(archive, {"json.x"}), "t.tar:1: field 'json' has no key 'x'\n");
  EXPECT_EQ(records_in(archive, {"json.l"}),
            "t.tar:1: 'json.l' has the type 'array', a string, number or boolean wanted\n");
}

TEST(WebdatasetTest, WhatIsWrongWithASampleIsToldAndTheNextIsRead) {
  const std::string archive = tar_member("1.cls", "1") + tar_member("2.txt", "\xff") +
                              tar_member("3.txt", "x") + tar_member("3.TXT", "y") +
                              tar_member("4.json", "{") + tar_member("5.txt", "fine") + tar_end();
  EXPECT_EQ(records_in(archive, {"txt"}),
            "t.tar:1 has no field 'txt'\nit has the fields 'cls'\n"
            "t.tar:2: field 'txt' is not UTF-8 of at most 16 MiB\n"
            "t.tar:3 has the field 'txt' twice\n"
            "t.tar:4 has no field 'txt'\nit has the fields 'json'\n"
            "t.tar:5|fine\n");
  EXPECT_EQ(records_in(tar_member("4.json", "{") + tar_end(), {"json.t"}),
            "t.tar:4: field 'json' is not JSON\n");
}

TEST(WebdatasetTest, ArchivesOfAFolderFollowOneAnother) {
  const TempFolder folder;
  folder.write("tokenizer.json", kSmallTokenizer);
  folder.write("d/b.tar", tar_member("1.txt", "bad") + tar_member("1.cls", "0") + tar_end());
  folder.write("d/a.tar", tar_member("1.txt", "good film") + tar_member("1.cls", "1") +
                              tar_member("2.cls", "1") + tar_end());
  folder.write("d/c.tar", tar_end());
  const auto open = [&](const std::string& path, const std::string& options) {
    return build<Dataset>("{type: webdataset, path: " + folder.path(path) + ", target: cls, " +
                          "tokenizer: " + folder.path("tokenizer.json") + options + "}");
  };
  EXPECT_EQ(complaint([&] { open("d", ""); }),
            folder.path("d/a.tar") + ":2 has no field 'txt'\nit has the fields 'cls'");
  testing::internal::CaptureStderr();
  const auto data = open("d", ", on_bad_sample: skip(1)");
  testing::internal::GetCapturedStderr();
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(left_out(*data), 1);
  const Sample last = data->sample(1);
  EXPECT_EQ(last.input.as<int64_t>()[1], 6);
  EXPECT_EQ(last.target.as<int64_t>()[0], 0);
  EXPECT_EQ(complaint([&] { open("d/c.tar", ""); }),
            "'" + folder.path("d/c.tar") + "' has no samples");
  folder.write("e/a.txt", "");
  EXPECT_EQ(complaint([&] { open("e", ""); }), "no '*.tar' files in '" + folder.path("e") + "'");
  // A damaged archive is no bad sample.
  folder.write("d/b.tar", tar_member("1.txt", "bad").substr(0, 514));
  EXPECT_NE(complaint([&] { open("d", ", on_bad_sample: skip(9)"); }), "");
}

}  // namespace
}  // namespace accel::webdataset_test
