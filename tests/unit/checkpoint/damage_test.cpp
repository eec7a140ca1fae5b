// Damaged checkpoints: each kind of fault is found before a tensor is used, and named.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "checkpoint/manifest.h"
#include "checkpoint/store.h"
#include "core/base/error.h"
#include "tests/unit/checkpoint/memory_files.h"
#include "tests/unit/checkpoint/small_state.h"

namespace accel::damage_test {
namespace {

const std::string kFolder = "/run/checkpoints/checkpoint_1";

class Damage {
 public:
  Damage() { CheckpointStore(files, "/run").save(small_state(1)); }

  std::string& content(const std::string& name) { return files.content(kFolder + "/" + name); }

  /// The message of the error that loading gives, "" when it loads.
  std::string complaint() {
    const CheckpointStore store(files, "/run");
    try {
      store.load(kFolder);
      return "";
    } catch (const CheckpointError& error) {
      return error.what();
    }
  }

  bool verifies() {
    try {
      CheckpointStore(files, "/run").verify(kFolder);
      return true;
    } catch (const CheckpointError&) {
      return false;
    }
  }

  std::vector<DirEntry> entries() { return files.list(kFolder); }

  MemoryFiles files;
};

TEST(CheckpointDamageTest, EveryFaultIsNamedWithItsFile) {
  struct Fault {
    void (*inflict)(Damage&);
    std::string message;
  };
  const std::string damaged = "checkpoint '" + kFolder + "' is damaged: ";
  const Fault faults[] = {
      {[](Damage& d) { d.files.erase(kFolder + "/model.safetensors"); },
       damaged + "'model.safetensors' is missing"},
      {[](Damage& d) { d.content("model.safetensors") += 'x'; },
       damaged + "'model.safetensors' has 281 bytes, 280 expected"},
      {[](Damage& d) { d.content("scaler.pt").clear(); },
       damaged + "'scaler.pt' has 0 bytes, 730 expected"},
      {[](Damage& d) { d.content("model.safetensors").back() ^= 1; },
       damaged + "'model.safetensors' has checksum 1984c03c78a054e3, e10414049eedc8bb expected"},
      {[](Damage& d) { d.content("accel_run.json").clear(); },
       damaged + "'accel_run.json' cannot be read: it does not start with its checksum"},
      {[](Damage& d) {
         d.files.erase(kFolder + "/scheduler.bin"), d.files.make_dirs(kFolder + "/scheduler.bin");
       },
       damaged + "'scheduler.bin' is not a regular file"},
  };
  for (const Fault& fault : faults) {
    Damage damage;
    fault.inflict(damage);
    EXPECT_EQ(damage.complaint(), fault.message);
    EXPECT_FALSE(damage.verifies());
  }
}

TEST(CheckpointDamageTest, DamagedBytesAreEscapedInTheMessage) {
  Damage damage;
  std::string& manifest = damage.content(kManifestFile);
  const size_t digits = manifest.find("xxh3:") + 5;
  const std::string checksum = manifest.substr(digits, 16);
  manifest[digits] = '\xb5';
  manifest[digits + 1] = '\x1b';
  EXPECT_EQ(damage.complaint(), "checkpoint '" + kFolder +
                                    "' is damaged: 'accel_run.json' cannot be read: its content "
                                    "has checksum " +
                                    checksum + ", its first line says \\xb5\\x1b" +
                                    checksum.substr(2));
}

TEST(CheckpointDamageTest, AManifestMustMatchItsFiles) {
  const std::pair<void (*)(Manifest&), const char*> faults[] = {
      {[](Manifest& m) { m.model.push_back("ghost"); },
       "'model.safetensors' has no tensor 'ghost'"},
      {[](Manifest& m) { m.state.sections["best"].tensors["ghost"]; },
       "'accel_run.safetensors' has no tensor 'parts/best/ghost'"},
      {[](Manifest& m) { m.files.erase("model.safetensors"); },
       "'accel_run.json' has no file 'model.safetensors'"},
  };
  for (const auto& [change, message] : faults) {
    Damage damage;
    Manifest manifest = read_manifest(damage.content(kManifestFile));
    change(manifest);
    damage.content(kManifestFile) = write_manifest(manifest);
    EXPECT_EQ(damage.complaint(), "checkpoint '" + kFolder + "' is damaged: " + message);
  }
}

TEST(CheckpointDamageTest, AFolderOfOtherThingsIsNoCheckpoint) {
  Damage damage;
  for (const DirEntry& entry : damage.entries()) damage.files.erase(kFolder + "/" + entry.name);
  EXPECT_EQ(damage.complaint(), "'" + kFolder +
                                    "' is not a checkpoint or model folder: it has no "
                                    "'accel_run.json', 'model.safetensors', 'pytorch_model.bin' or "
                                    "index of these, no 'pytorch_model_fsdp.bin', "
                                    "'pytorch_model_fsdp_0' or '.metadata'");
}

TEST(CheckpointDamageTest, AFileBesideTheManifestsOnesIsNoDamage) {
  Damage damage;
  damage.files.create(kFolder + "/notes.txt");
  EXPECT_EQ(damage.complaint(), "");
}

TEST(CheckpointDamageTest, AnUnreadableFileIsAnErrorOfTheCheckpoint) {
  Damage damage;
  for (int n = 1; n < 50; ++n) {
    damage.files.fail_call(n, EIO);
    const std::string complaint = damage.complaint();
    if (!damage.files.fault_fired()) return;
    EXPECT_NE(complaint.find("Input/output error"), std::string::npos) << complaint;
  }
}

TEST(CheckpointDamageTest, TruncationAnywhereIsFound) {
  Damage damage;
  int truncations = 0;
  for (const DirEntry& entry : damage.entries()) {
    const auto step = static_cast<size_t>(std::max<int64_t>(1, entry.bytes / 200));
    const std::string whole = damage.content(entry.name);
    for (size_t keep = 0; keep < static_cast<size_t>(entry.bytes); keep += step, ++truncations) {
      damage.content(entry.name).resize(keep);
      EXPECT_FALSE(damage.verifies()) << entry.name << " cut to " << keep;
      damage.content(entry.name) = whole;
    }
  }
  EXPECT_GE(truncations, 1000);
  EXPECT_TRUE(damage.verifies());
}

TEST(CheckpointDamageTest, AZeroedTailIsFound) {
  Damage intact;
  for (const DirEntry& entry : intact.entries()) {
    Damage damage;
    std::string& content = damage.content(entry.name);
    content.replace(content.size() - 8, 8, 8, '\0');
    if (content == intact.content(entry.name)) continue;
    EXPECT_FALSE(damage.verifies()) << entry.name;
  }
}

TEST(CheckpointDamageTest, AFileOfAnotherCheckpointIsFound) {
  Damage damage;
  CheckpointStore(damage.files, "/run").save(small_state(2));
  for (const DirEntry& entry : damage.entries()) {
    std::string other = damage.files.content("/run/checkpoints/checkpoint_2/" + entry.name);
    if (entry.name == "accel_run.json") continue;  // then the others are those of another
    damage.content(entry.name).swap(other);
    EXPECT_FALSE(damage.verifies()) << entry.name;
    damage.content(entry.name).swap(other);
  }
  damage.content("accel_run.json") =
      damage.files.content("/run/checkpoints/checkpoint_2/accel_run.json");
  EXPECT_FALSE(damage.verifies());
}

/// Flips a bit chosen by chance, gives its place to `look`, and flips it back.
void each_flip(Damage& damage, int count, const std::function<void(const std::string&)>& look) {
  std::mt19937_64 random(1);
  const std::vector<DirEntry> entries = damage.entries();
  for (int i = 0; i < count; ++i) {
    const DirEntry& entry = entries[random() % entries.size()];
    std::string& content = damage.content(entry.name);
    const size_t byte = random() % content.size();
    const auto bit = static_cast<char>(1 << (random() % 8));
    content[byte] = static_cast<char>(content[byte] ^ bit);
    look(entry.name + ", byte " + std::to_string(byte));
    content[byte] = static_cast<char>(content[byte] ^ bit);
  }
}

TEST(CheckpointDamageTest, EverySingleFlippedBitIsFound) {
  Damage damage;
  each_flip(damage, 10000,
            [&](const std::string& place) { EXPECT_FALSE(damage.verifies()) << place; });
  EXPECT_TRUE(damage.verifies());
}

TEST(CheckpointDamageTest, WithAFlippedBitTheOneBeforeIsTakenAndTheUserTold) {
  Damage damage;
  const CheckpointStore store(damage.files, "/run");
  CheckpointStore(damage.files, "/run").save(small_state(0));
  each_flip(damage, 1000, [&](const std::string& place) {
    std::string reported;
    EXPECT_EQ(store.load_newest([&](const std::string& line) { reported += line; })->path,
              "/run/checkpoints/checkpoint_0")
        << place;
    EXPECT_TRUE(reported.starts_with("skipped step 1: checkpoint '" + kFolder + "' is damaged: '" +
                                     place.substr(0, place.find(',')) + "' "))
        << place << ": " << reported;
  });
  EXPECT_EQ(store.load_newest()->path, kFolder);
}

}  // namespace
}  // namespace accel::damage_test
