// The sbatch script of a job.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/text.h"
#include "runner/submit/shell_word.h"
#include "runner/submit/spec.h"

namespace accel {
namespace {

/// "1-04:30:00" of seconds, rounded up to minutes as Slurm does.
std::string slurm_time(double seconds) {
  const auto minutes = static_cast<int64_t>(std::ceil(seconds / 60));
  const int64_t days = minutes / 1440, hours = minutes % 1440 / 60;
  char text[32];
  std::snprintf(text, sizeof text, "%lld-%02lld:%02lld:00", static_cast<long long>(days),
                static_cast<long long>(hours), static_cast<long long>(minutes % 60));
  return text;
}

/// Collects the `#SBATCH` lines of a script.
class Directives {
 public:
  void add(const std::string& option, const std::string& value) {
    // sbatch splits the line at blanks, but keeps what is in quotes together.
    const bool plain = value.find_first_of(" \t\"'#") == value.npos;
    lines_ +=
        "#SBATCH --" + option + (value.empty() ? "" : "=" + (plain ? value : quoted(value))) + "\n";
  }
  void add_set(const std::string& option, const std::string& value) {
    if (!value.empty()) add(option, value);
  }
  const std::string& lines() const { return lines_; }

 private:
  static std::string quoted(const std::string& value) {
    std::string out = "\"";
    for (const char c : value) out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
    return out + '"';
  }

  std::string lines_;
};

std::string directives(const SubmittedJob& job) {
  const SubmitSection& section = job.section;
  Directives out;
  out.add("job-name", dns_label(job.name));
  out.add("chdir", job.folder);
  out.add("output", job.run_dir + "/" + kSubmitFolder + "/slurm-%j.out");
  out.add("open-mode", "append");
  out.add("nodes", std::to_string(section.nodes));
  out.add("ntasks-per-node", "1");
  if (section.gpus > 0) out.add("gpus-per-node", std::to_string(section.gpus));
  if (section.cpus) out.add("cpus-per-task", std::to_string(*section.cpus));
  if (section.memory) {
    out.add("mem", std::to_string((section.memory.value->bytes + (1 << 20) - 1) >> 20) + "M");
  }
  if (section.time) out.add("time", slurm_time(section.time->seconds));
  out.add_set("partition", section.queue);
  out.add_set("account", section.account);
  out.add("requeue", "");
  // The ranks save when it arrives, two minutes before the end.
  out.add("signal", "USR1@120");
  for (const Node::Entry& entry : *section.extra.map()) {
    const std::string value = entry.node.scalar() ? entry.node.scalar()->text : "";
    out.add(entry.key, value == "true" ? "" : value);
  }
  return out.lines();
}

std::string exports(const SubmittedJob& job) {
  std::string out;
  for (const auto& [name, value] : job.section.env) {
    if (value.reference.empty()) {
      out += "export " + name + "=" + shell_word(value.value) + "\n";
    } else {
      out += ": \"${" + name + ":?is not set: export it before accel-run submit}\"\n";
    }
  }
  return out.empty() ? "" : "\n" + out;
}

std::string container(const SubmittedJob& job) {
  if (job.section.image.empty()) return "";
  std::vector<std::string> mounts = {job.folder + ":" + job.folder};
  mounts.insert(mounts.end(), job.section.mounts.begin(), job.section.mounts.end());
  return "  --container-image=" + shell_word(job.section.image) +
         " --container-mounts=" + shell_word(joined(mounts, ",")) +
         " --container-workdir=" + shell_word(job.folder) + " \\\n";
}

}  // namespace

std::string slurm_script(const SubmittedJob& job) {
  const std::string folder = job.run_dir + "/" + kSubmitFolder;
  const std::string fatal =
      joined(fatal_exit_codes(), "|", [](int c) { return std::to_string(c); });
  std::string out = "#!/bin/bash\n";
  out += "# Written by accel-run submit: machines=" + std::to_string(job.section.nodes) +
         " ranks_per_machine=" + std::to_string(job.ranks_per_node) + "\n";
  out += directives(job);
  out += "set -u\n";
  out += exports(job);
  out += R"(
# The rendezvous of the machines, with a new token for each attempt.
PET_MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
ACCEL_RUN_JOB_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export PET_MASTER_ADDR ACCEL_RUN_JOB_TOKEN
export PET_MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export PET_NNODES=$SLURM_JOB_NUM_NODES
export ACCEL_RUN_SLURM_COMMENT=1
)";
  out += "export PET_NPROC_PER_NODE=" + std::to_string(job.ranks_per_node) + "\n\n";
  out += "codes=" + shell_word(folder + "/codes") + ".$SLURM_JOB_ID\n";
  out += "failures=" + shell_word(folder + "/failures") + ".$SLURM_JOB_ID\n";
  out += "export codes\nrm -f \"$codes\"\n\n";
  out += "# One launcher per machine. bash waits for it through the signals of Slurm.\n";
  out += "# shellcheck disable=SC2016\n";
  out += "srun --kill-on-bad-exit=0 \\\n" + container(job);
  out +=
      "  bash -c 'trap : USR1 TERM; PET_NODE_RANK=$SLURM_NODEID \"$@\"; code=$?; "
      "echo $code >> \"$codes\"; exit $code' machine \\\n";
  out += "  accel-run run " + shell_word(folder + "/" + kSubmittedRecipe) + "\n";
  out += "code=$?\n\n";
  out += "if grep -qxE '" + fatal + "' \"$codes\"; then\n";
  out += R"(  echo "accel-run: exit code $(grep -xE ')" + fatal +
         R"(' "$codes" | head -n 1): no restart"
elif [ "$code" -eq 0 ]; then
  rm -f "$failures"
elif grep -qx 75 "$codes"; then
  echo "accel-run: saved and stopped, requeueing"
  scontrol requeue "$SLURM_JOB_ID"
else
  echo "$code" >> "$failures"
  count=$(wc -l < "$failures")
)";
  out += "  if [ \"$count\" -le " + std::to_string(job.section.retries) + " ]; then\n";
  out += "    echo \"accel-run: exit code $code, restart $count of at most " +
         std::to_string(job.section.retries) + "\"\n";
  out += R"(    scontrol requeue "$SLURM_JOB_ID"
  fi
fi
exit "$code"
)";
  return out;
}

}  // namespace accel
