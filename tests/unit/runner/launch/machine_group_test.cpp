#include "runner/launch/machine_group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "runner/launch/machine_link.h"
#include "tests/unit/reserved_port.h"

namespace accel::machine_group_test {
namespace {

/// Plays events of a run on three machines, two at least, and writes down orders and notes.
class Play {
 public:
  explicit Play(int64_t max_restarts = 2, int64_t least = 2)
      : group_({.most = 3,
                .least = least,
                .max_restarts = max_restarts,
                .join_timeout_ms = 60'000,
                .regroup_timeout_ms = 30'000}) {}

  Play& join(int64_t machine) {
    group_.joined(machine, "n" + std::to_string(machine), now_);
    return *this;
  }
  Play& lose(int64_t machine) {
    group_.lost(machine, now_);
    return *this;
  }
  /// In the generation that runs.
  Play& end(int64_t machine, int code, bool primary = false, int64_t first_step = -1) {
    group_.ended(machine, {generation_, code, primary, first_step}, now_);
    return *this;
  }
  Play& quit(int64_t machine, int code) {
    group_.quit(machine, code);
    return *this;
  }
  Play& wait(int64_t milliseconds) {
    now_ += milliseconds;
    group_.tick(now_);
    return *this;
  }

  Play& all_join() {
    for (int64_t machine = 0; machine < 3; ++machine) join(machine);
    group_.tick(now_);
    return *this;
  }
  Play& all_end(int code, int64_t first_step = -1) {
    for (int64_t machine = 0; machine < 3; ++machine) end(machine, code, false, first_step);
    group_.tick(now_);
    return *this;
  }

  /// "0:start0(0/3) 1:stop".
  std::string taken() {
    std::string out;
    for (const MachineOrder& order : group_.take_orders()) {
      out += (out.empty() ? "" : " ") + std::to_string(order.machine) + ":" + name(order);
      generation_ = std::max(generation_, order.generation);
    }
    return out;
  }
  std::string notes() {
    std::string out;
    for (const std::string& note : group_.take_notes()) out += (out.empty() ? "" : "\n") + note;
    return out;
  }

 private:
  static std::string name(const MachineOrder& order) {
    switch (order.kind) {
      case OrderKind::kStart:
        return "start" + std::to_string(order.generation) + "(" + std::to_string(order.rank) + "/" +
               std::to_string(order.machines) + ")";
      case OrderKind::kStop:
        return "stop";
      case OrderKind::kSave:
        return "save";
      case OrderKind::kFinish:
        return "finish" + std::to_string(order.code);
    }
    return "";
  }

  MachineGroup group_;
  int64_t now_ = 0, generation_ = -1;
};

constexpr auto kAllStart = "0:start0(0/3) 1:start0(1/3) 2:start0(2/3)";

TEST(MachineGroupTest, StartsOnceAllMachinesAreThere) {
  Play play;
  play.join(0).join(2).wait(0);
  EXPECT_EQ(play.taken(), "");
  play.join(1).wait(0);
  EXPECT_EQ(play.taken(), kAllStart);
  play.all_end(0);
  EXPECT_EQ(play.taken(), "0:finish0 1:finish0 2:finish0");
}

TEST(MachineGroupTest, StartsWithFewerAtTheTimeout) {
  Play play;
  play.join(0).wait(0).join(2).wait(59'999);
  EXPECT_EQ(play.taken(), "");
  play.wait(1);
  EXPECT_EQ(play.taken(), "0:start0(0/2) 2:start0(1/2)");
  EXPECT_EQ(play.notes(),
            "training on 2 of 3 machines: the batch and the order of samples stay, sums differ in "
            "the last bits unless 'reduction' is canonical");
}

TEST(MachineGroupTest, NamesTheMachinesThatDidNotJoin) {
  Play play;
  play.join(0).wait(0).wait(60'000);
  EXPECT_EQ(play.taken(), "0:finish6");
  EXPECT_EQ(play.notes(), "machines 1, 2 did not join within 60 s");
}

TEST(MachineGroupTest, AKilledRankStopsAndRestartsAll) {
  Play play;
  EXPECT_EQ(play.all_join().taken(), kAllStart);
  play.end(1, 5, true);
  EXPECT_EQ(play.taken(), "0:stop 2:stop");
  play.end(0, 5).end(2, 5).wait(0).wait(0);
  EXPECT_EQ(play.taken(), "0:start1(0/3) 1:start1(1/3) 2:start1(2/3)");
  EXPECT_EQ(play.notes(), "restarting all ranks (1 of at most 2 restarts)");
}

TEST(MachineGroupTest, WaitsForTheCauseOfALostPeer) {
  Play play;
  play.all_join().taken();
  play.end(1, 5).wait(5999);
  EXPECT_EQ(play.taken(), "");
  play.end(2, 3, true);  // its data is damaged
  EXPECT_EQ(play.taken(), "0:stop");
  play.end(0, 5);
  EXPECT_EQ(play.taken(), "0:finish3 1:finish3 2:finish3");
}

TEST(MachineGroupTest, RestartsWithoutProgressBackOffAndEnd) {
  Play play;
  play.all_join().taken();
  play.all_end(5, 4).wait(0);
  EXPECT_EQ(play.taken(), "0:start1(0/3) 1:start1(1/3) 2:start1(2/3)");
  play.all_end(5, 4).wait(999);
  EXPECT_EQ(play.taken(), "");
  play.wait(1);
  EXPECT_EQ(play.taken(), "0:start2(0/3) 1:start2(1/3) 2:start2(2/3)");
  play.notes();
  play.all_end(5, 4);
  EXPECT_EQ(play.taken(), "0:finish5 1:finish5 2:finish5");
  EXPECT_EQ(play.notes(), "no restart: 2 restarts brought no new checkpoint");
}

TEST(MachineGroupTest, ProgressResetsTheCount) {
  Play play(1);
  play.all_join().taken();
  for (int64_t step = 4; step < 40; step += 4) {
    play.all_end(5, step).wait(0);
    EXPECT_NE(play.taken().find("start"), std::string::npos) << step;
  }
}

TEST(MachineGroupTest, ContinuesWithoutALostMachine) {
  Play play;
  play.all_join().taken();
  play.lose(2);
  EXPECT_EQ(play.taken(), "0:stop 1:stop");
  play.end(0, 5).end(1, 5).wait(0).wait(29'999);
  EXPECT_EQ(play.taken(), "");
  play.wait(1);
  EXPECT_EQ(play.taken(), "0:start1(0/2) 1:start1(1/2)");
}

TEST(MachineGroupTest, TakesAMachineBackAfterASave) {
  Play play;
  play.join(0).join(1).wait(0).wait(60'000).taken();
  play.notes();
  play.join(2);
  EXPECT_EQ(play.taken(), "0:save 1:save");
  EXPECT_EQ(play.notes(), "machine 2 ('n2') has joined: saving to continue with it");
  play.end(0, 75).end(1, 75).wait(0);
  EXPECT_EQ(play.taken(), "0:start1(0/3) 1:start1(1/3) 2:start1(2/3)");
}

TEST(MachineGroupTest, AStopOfTheUserEndsAll) {
  Play play;
  play.all_join().taken();
  play.all_end(75);
  EXPECT_EQ(play.taken(), "0:finish75 1:finish75 2:finish75");
  Play killed;
  killed.all_join().taken();
  EXPECT_EQ(killed.quit(1, 143).taken(), "0:finish143 2:finish143");
}

TEST(MachineGroupTest, AProcessReplacesALostOneThatWasNotNoticed) {
  Play play;
  play.all_join().taken();
  play.join(1);
  EXPECT_EQ(play.taken(), "0:stop 2:stop");
  EXPECT_EQ(play.notes(), "machine 1 ('n1') is lost");
}

TEST(MachineGroupTest, EndsOfOldGenerationsAreIgnored) {
  Play play;
  play.all_join();
  play.end(1, 2);  // of generation -1
  EXPECT_EQ(play.taken(), kAllStart);
}

TEST(MachineLinkTest, AProofIsOfTokenNonceAndEnd) {
  const std::string proof = token_proof("secret", "n1", "main");
  EXPECT_EQ(proof.size(), 64u);
  EXPECT_EQ(proof, token_proof("secret", "n1", "main"));
  EXPECT_NE(proof, token_proof("secret", "n1", "machine"));
  EXPECT_NE(proof, token_proof("secret", "n2", "main"));
  EXPECT_NE(proof, token_proof("other", "n1", "main"));
}

MachinesRequest request(int64_t machine, int64_t most, const std::string& token, int64_t port) {
  return {.rules = {.most = most, .least = most, .max_restarts = 1},
          .machine_rank = machine,
          .address = "127.0.0.1",
          .port = port,
          .token = token,
          .beat_ms = 50,
          .join_timeout_seconds = 5};
}

/// The error of a machine that joins machine 0 of two, which has the token "t"; or its first order.
std::string met(const MachinesRequest& joining) {
  Machines main(request(0, 2, "t", joining.port), -1);
  Machines other(joining, -1);
  for (int64_t now = 1; now < 500; ++now) {
    try {
      main.step(now * 10);
      main.announce_port(7);
      const auto orders = other.step(now * 10);
      if (!orders.empty()) {
        return "rank " + std::to_string(orders[0].rank) + " at port " +
               std::to_string(other.store_port());
      }
    } catch (const Error& error) {
      return error.what();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return "nothing";
}

TEST(MachineLinkTest, AMachineWithTheTokenIsStarted) {
  EXPECT_EQ(met(request(1, 2, "t", reserved_port())), "rank 1 at port 7");
}

TEST(MachineLinkTest, AMachineWithoutItIsRefused) {
  EXPECT_EQ(met(request(1, 2, "", reserved_port())),
            "machine 0 at '127.0.0.1' has another ACCEL_RUN_JOB_TOKEN");
}

TEST(MachineLinkTest, AMachineOfAnotherRunIsRefused) {
  EXPECT_EQ(met(request(1, 3, "t", reserved_port())),
            "machine 0 at '127.0.0.1' has another number of machines or this rank itself");
}

TEST(MachineLinkTest, TheLossOfMachine0IsNoticed) {
  const int64_t port = reserved_port();
  auto main = std::make_unique<Machines>(request(0, 2, "t", port), -1);
  Machines other(request(1, 2, "t", port), -1);
  for (int64_t now = 1; now < 20; ++now) {
    main->step(now);
    other.step(now);
  }
  main.reset();
  std::vector<std::string> notes;
  for (int64_t now = 20; now < 200 && notes.empty(); ++now) {
    other.step(now);
    notes = other.take_notes();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], "machine 0 at '127.0.0.1' is lost: waiting for it");
}

}  // namespace
}  // namespace accel::machine_group_test
