// Damaged checkpoints: each kind of fault is found before a tensor is used, and named.
#include <gtest/gtest.h>

#include <random>

#include "core/error.h"
#include "runner/checkpoint/store.h"
#include "tests/unit/checkpoint/memory_files.h"
#include "tests/unit/checkpoint/small_state.h"

namespace accel {
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
       damaged + "'model.safetensors' holds 281 bytes, 280 expected"},
      {[](Damage& d) { d.content("scaler.pt").clear(); },
       damaged + "'scaler.pt' holds 0 bytes, 730 expected"},
      {[](Damage& d) { d.content("model.safetensors").back() ^= 1; },
       damaged + "'model.safetensors' has checksum 1984c03c78a054e3, e10414049eedc8bb expected"},
      {[](Damage& d) { d.content("accel_run.json").clear(); },
       damaged + "'accel_run.json' cannot be read: it does not begin with its checksum"},
      {[](Damage& d) {
         d.files.erase(kFolder + "/scheduler.bin"), d.files.make_dirs(kFolder + "/scheduler.bin");
       },
       damaged + "'scheduler.bin' is no regular file"},
  };
  for (const Fault& fault : faults) {
    Damage damage;
    fault.inflict(damage);
    EXPECT_EQ(damage.complaint(), fault.message);
    EXPECT_FALSE(damage.verifies());
  }
}

TEST(CheckpointDamageTest, AFolderOfOtherThingsIsNoCheckpoint) {
  Damage damage;
  for (const DirEntry& entry : damage.entries()) damage.files.erase(kFolder + "/" + entry.name);
  EXPECT_EQ(damage.complaint(), "'" + kFolder +
                                    "' is no checkpoint: it has neither 'accel_run.json' nor "
                                    "'model.safetensors' nor 'pytorch_model.bin'");
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
  Damage intact;
  for (const DirEntry& entry : intact.entries()) {
    const auto step = static_cast<size_t>(std::max<int64_t>(1, entry.bytes / 200));
    for (size_t keep = 0; keep < static_cast<size_t>(entry.bytes); keep += step) {
      Damage damage;
      damage.content(entry.name).resize(keep);
      EXPECT_FALSE(damage.verifies()) << entry.name << " cut to " << keep;
    }
  }
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

TEST(CheckpointDamageTest, EverySingleFlippedBitIsFound) {
  Damage damage;
  std::mt19937_64 random(1);
  const std::vector<DirEntry> entries = damage.entries();
  for (int i = 0; i < 10000; ++i) {
    const DirEntry& entry = entries[random() % entries.size()];
    std::string& content = damage.content(entry.name);
    const size_t byte = random() % content.size();
    const auto bit = static_cast<char>(1 << (random() % 8));
    content[byte] = static_cast<char>(content[byte] ^ bit);
    EXPECT_FALSE(damage.verifies()) << entry.name << ", byte " << byte;
    content[byte] = static_cast<char>(content[byte] ^ bit);
  }
  EXPECT_TRUE(damage.verifies());
}

}  // namespace
}  // namespace accel
