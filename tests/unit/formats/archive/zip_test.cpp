// Zip archives: PyTorch's layout, single members, and refused archives.
#include "formats/archive/zip.h"

#include <gtest/gtest.h>

#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/formats/written.h"
#include "tests/unit/formats/zip_archive.h"

namespace accel::zip_test {
namespace {

using namespace std::string_literals;

std::string archive(const std::vector<std::pair<std::string, std::string>>& entries) {
  return written([&](const ByteSink& sink) {
    ZipWriter zip(sink);
    for (const auto& [name, data] : entries) zip.add(name, as_bytes(data));
    zip.finish();
  });
}

std::string fault_of(const std::string& bytes) {
  return format_fault([&] { ZipReader reader(as_bytes(bytes)); });
}

template <class T>
std::string little(T value) {
  std::string out;
  put_little(out, value);
  return out;
}

/// An archive with every number settable; valid by default.
struct HandMade {
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t local_size = 4;
  uint32_t listed_size = 4;
  uint32_t packed_size = 4;
  uint32_t offset = 0;
  std::string local_name = "a";
  std::string local_extra;
  std::string listed_extra;
  std::string prefix;
  std::string comment;
  uint16_t entries = 1;
  int copies = 1;  ///< of the directory's line

  std::string bytes() const {
    const std::string local = prefix + "PK\3\4" + little<uint16_t>(20) + little(flags) +
                              little(method) + std::string(8, '\0') + little(local_size) +
                              little(local_size) + little<uint16_t>(local_name.size()) +
                              little<uint16_t>(local_extra.size()) + local_name + local_extra +
                              "data";
    std::string directory;
    for (int i = 0; i < copies; ++i) {
      directory += "PK\1\2" + little<uint32_t>(20) + little(flags) + little(method) +
                   std::string(8, '\0') + little(packed_size) + little(listed_size) +
                   little<uint16_t>(1) + little<uint16_t>(listed_extra.size()) +
                   std::string(10, '\0') + little(offset) + "a" + listed_extra;
    }
    const auto end = "PK\5\6"s + std::string(4, '\0') + little(entries) + little(entries) +
                     little<uint32_t>(directory.size()) + little<uint32_t>(local.size()) +
                     little<uint16_t>(comment.size()) + comment;
    return local + directory + end;
  }
};

TEST(ZipTest, EntriesComeBackAlignedTo64Bytes) {
  const std::string bytes = archive({{"x/data.pkl", "pickle"},
                                     {"x/empty", ""},
                                     {"x/data/0", std::string(1000, 'd')},
                                     {std::string(61, 'n'), "z"}});
  const ZipReader reader(as_bytes(bytes));
  ASSERT_EQ(reader.entries().size(), 4U);
  EXPECT_EQ(as_text(reader.entries().at("x/data.pkl")), "pickle");
  EXPECT_EQ(as_text(reader.entries().at("x/data/0")), std::string(1000, 'd'));
  for (const auto& [name, data] : reader.entries()) {
    EXPECT_EQ((reinterpret_cast<const char*>(data.data()) - bytes.data()) % 64, 0) << name;
  }
}

TEST(ZipTest, BytesAreTheseAndCarryNoTimeOfDay) {
  const std::string local = "PK\3\4\x2d\0\0\x08\0\0\0\0\x21\0\xac\x2a\x93\xd8\2\0\0\0\2\0\0\0"s +
                            "\1\0\x21\0"
                            "aFB\x1d\0"s +
                            std::string(29, 'Z') + "hi";
  const std::string directory =
      "PK\1\2\x2d\0\x2d\0\0\x08\0\0\0\0\x21\0\xac\x2a\x93\xd8\2\0\0\0\2\0\0\0"s + "\1\0\0\0"s +
      std::string(10, '\0') + std::string(4, '\0') + "a";
  const std::string end = "PK\5\6\0\0\0\0\1\0\1\0\x2f\0\0\0\x42\0\0\0\0\0"s;
  EXPECT_EQ(archive({{"a", "hi"}}), local + directory + end);
}

TEST(ZipTest, AnEmptyArchiveIsRead) {
  const std::string bytes = archive({});
  EXPECT_TRUE(ZipReader(as_bytes(bytes)).entries().empty());
}

TEST(ZipTest, ManyEntriesNeedTheZip64EndRecord) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (int i = 0; i < 65'535; ++i) entries.emplace_back(std::to_string(i), "");
  const std::string bytes = archive(entries);
  EXPECT_EQ(ZipReader(as_bytes(bytes)).entries().size(), 65'535U);
}

TEST(ZipTest, MoreEntriesThanMemoryShouldHoldAreRefused) {
  constexpr uint64_t kEntries = (uint64_t{1} << 18) + 1;
  std::string file(46 * kEntries, '\0');
  const auto put_all = [&file](std::initializer_list<uint64_t> values) {
    for (const uint64_t value : values) put_little(file, value);
  };
  put_little<uint32_t>(file, 0x06064b50);
  put_all({44, 0});  // bytes that follow; versions and part numbers
  put_little<uint32_t>(file, 0);
  put_all({kEntries, kEntries, 46 * kEntries, 0});
  put_little<uint32_t>(file, 0x07064b50);
  put_little<uint32_t>(file, 0);
  put_all({46 * kEntries});
  put_little<uint32_t>(file, 1);
  file += "PK\5\6\0\0\0\0"s + std::string(12, '\xff') + "\0\0"s;
  EXPECT_EQ(fault_of(file), "the zip archive has 262145 entries, at most 262144 wanted");
}

TEST(ZipTest, SizesMayFollowTheDataAsPyTorchWritesThem) {
  HandMade zip;
  zip.flags = 1 << 3;
  zip.local_size = 0;
  EXPECT_EQ(fault_of(zip.bytes()), "");
}

TEST(ZipTest, SizesMayBeInAZip64Field) {
  HandMade zip;
  zip.local_size = zip.listed_size = zip.packed_size = 0xffffffff;
  zip.local_extra = zip.listed_extra =
      little<uint16_t>(1) + little<uint16_t>(16) + little<uint64_t>(4) + little<uint64_t>(4);
  const std::string bytes = zip.bytes();
  const ZipReader reader(as_bytes(bytes));
  EXPECT_EQ(as_text(reader.entries().at("a")), "data");
}

TEST(ZipTest, InvalidArchivesAreRefused) {
  const auto with = [](auto change) {
    HandMade zip;
    change(zip);
    return zip.bytes();
  };
  EXPECT_EQ(fault_of(HandMade().bytes()), "");
  const std::pair<std::string, std::string> refused[] = {
      {"", "not a zip archive: the end record is missing"},
      {std::string(100, 'x'), "not a zip archive: the end record is missing"},
      {HandMade().bytes() + "x", "not a zip archive: the end record is missing"},
      {with([](HandMade& z) { z.method = 8; }), "the zip entry 'a' is compressed"},
      {with([](HandMade& z) { z.flags = 1; }), "the zip entry 'a' is encrypted"},
      {with([](HandMade& z) { z.packed_size = 3; }),
       "the zip entry 'a' is stored but has two sizes"},
      {with([](HandMade& z) { z.local_size = 3; }),
       "the zip entry 'a' has another size in its local header"},
      {with([](HandMade& z) { z.local_name = "b"; }),
       "the zip entry 'a' has another name in its local header"},
      {with([](HandMade& z) { z.offset = 1; }), "the zip entry 'a' has no local header"},
      {with([](HandMade& z) { z.offset = 1000; }), "the zip entry 'a' is outside the file"},
      {with([](HandMade& z) { z.listed_size = z.packed_size = z.local_size = 5; }),
       "the zip entry 'a' ends early: 5 more bytes wanted, 4 are left"},
      {with([](HandMade& z) { z.listed_size = z.packed_size = z.local_size = 0xffffffff; }),
       "the zip entry 'a' ends early: 4294967295 more bytes wanted, 4 are left"},
      {with([](HandMade& z) { z.copies = 2, z.entries = 2; }), "the zip archive has 'a' twice"},
      {with([](HandMade& z) { z.copies = 2; }), "the zip directory has bytes after its last entry"},
      {with([](HandMade& z) { z.entries = 9; }), "the zip directory claims 9 entries in 47 bytes"},
      {with([](HandMade& z) { z.prefix = "#!/bin/sh\n", z.offset = 10; }),
       "the zip archive has bytes before its first entry"},
      {with([](HandMade& z) { z.comment = std::string(22, 'c'); }),
       "not a zip archive: the end record is missing"},
  };
  for (const auto& [bytes, message] : refused) EXPECT_EQ(fault_of(bytes), message);
}

TEST(ZipTest, OverlappingEntriesAreRefused) {
  // The second entry's header is inside the first one's data.
  const std::string inner = "PK\3\4"s + std::string(22, '\0') + "\1\0\0\0b"s;
  std::string bytes = archive({{"a", inner}, {"b", ""}});
  const size_t line = bytes.rfind("PK\1\2");
  const size_t target = bytes.find(inner);
  bytes.replace(line + 42, 4, little(static_cast<uint32_t>(target)));
  EXPECT_EQ(fault_of(bytes), "zip entries overlap");
}

TEST(ZipTest, DataIsComparedWithItsCrcWhenAsked) {
  const auto fault = [](const std::string& bytes) {
    return format_fault([&] { ZipReader(as_bytes(bytes)).check_data(); });
  };
  const std::string good = archive({{"top/a", "12345"}, {"top/b", "67890"}});
  EXPECT_EQ(fault(good), "");
  std::string flipped = good;
  flipped[flipped.find("67890") + 2] ^= 1;
  EXPECT_EQ(fault_of(flipped), "");
  EXPECT_EQ(fault(flipped), "the zip entry 'top/b' is damaged: its CRC-32 does not match");
  // PyTorch can be configured to write no CRC-32.
  HandMade none;
  EXPECT_EQ(fault(none.bytes()), "");
}

TEST(ZipTest, EveryTruncationIsRefused) {
  const std::string bytes = archive({{"a", "hello"}, {"b", "world"}});
  for (size_t keep = 0; keep < bytes.size(); ++keep) {
    EXPECT_NE(fault_of(bytes.substr(0, keep)), "") << keep;
  }
}

constexpr size_t kCap = 1000;

std::string member_fault(const std::string& archive, const std::string& name = "a/b.tsv",
                         size_t cap = kCap) {
  try {
    unzip_member(as_bytes(archive), name, cap);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

std::string member_content(const std::string& archive, const std::string& name) {
  return std::string(as_text(unzip_member(as_bytes(archive), name, kCap).view));
}

TEST(ZipMemberTest, DeflatedAndStoredEntriesAreRead) {
  const std::string long_text(900, 'x');
  for (const bool deflated : {true, false}) {
    for (const std::string comment : {"", "made by hand"}) {
      const std::string archive =
          zip_archive({{"a/", ""}, {"a/b.tsv", long_text}, {"c", "short"}}, deflated);
      const std::string ended = with_zip_comment(archive, comment);
      EXPECT_EQ(member_content(ended, "a/b.tsv"), long_text);
      EXPECT_EQ(member_content(ended, "c"), "short");
      EXPECT_EQ(member_content(ended, "a/"), "");
    }
  }
}

TEST(ZipMemberTest, MissingAndLargeEntriesAreRefused) {
  const std::string archive = zip_archive({{"a/b.tsv", "12345"}}, true);
  EXPECT_EQ(member_fault(archive, "b.tsv"), "the zip archive has no 'b.tsv'");
  EXPECT_EQ(member_fault(archive, "a/b.tsv", 4),
            "the zip entry 'a/b.tsv' claims 5 bytes, at most 4 wanted");
  EXPECT_EQ(member_fault(archive, "a/b.tsv", 5), "");
}

TEST(ZipMemberTest, DamageIsRefused) {
  const std::string archive = zip_archive({{"a/b.tsv", "some text of a file"}}, false);
  const std::string what = "the zip entry 'a/b.tsv'";
  const size_t data = archive.find("some"), listing = archive.find("PK\1\2");
  const auto changed = [&](size_t at, char value) {
    std::string out = archive;
    out[at] = value;
    return out;
  };
  const std::string damaged = what + " is damaged: its CRC-32 does not match";
  EXPECT_EQ(member_fault(changed(data, 'S')), damaged);
  EXPECT_EQ(member_fault(changed(listing + 8, 1)), what + " is encrypted");
  EXPECT_EQ(member_fault(changed(listing + 10, 9)),
            what + " has compression method 9, not stored (0) or deflated (8)");
  EXPECT_EQ(member_fault(changed(listing + 24, 18)),
            what + " claims more bytes than its data can hold");
  EXPECT_EQ(member_fault(changed(listing + 10, 8)), damaged);
  EXPECT_EQ(member_fault(changed(listing + 44, 1)), what + " is outside the file");
  EXPECT_EQ(member_fault(changed(listing, 'Q')), "the zip directory is damaged");
  EXPECT_EQ(member_fault(changed(0, 'Q')), what + " has no local header");
  EXPECT_EQ(member_fault(changed(archive.size() - 6 + 2, 1)),
            "the zip directory does not end at the end record");
  EXPECT_EQ(member_fault(""), "not a zip archive: the end record is missing");
  EXPECT_EQ(member_fault(archive.substr(0, archive.size() - 1)),
            "not a zip archive: the end record is missing");
}

TEST(ZipMemberTest, EveryTruncationIsRefused) {
  const std::string archive = zip_archive({{"a/b.tsv", std::string(200, 'y')}}, true);
  for (size_t bytes = 0; bytes < archive.size(); ++bytes) {
    EXPECT_NE(member_fault(archive.substr(0, bytes)), "") << bytes;
  }
}

}  // namespace
}  // namespace accel::zip_test
