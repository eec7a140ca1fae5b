#!/usr/bin/env python3
"""Jobs of `submit` on a real Slurm: slurmctld, two slurmd and munged in a folder of this test.

    check_slurm.py ACCEL_RUN

The nodes are 127.0.0.1 and 127.0.0.2, both on this machine. No daemon uses cgroups or the system's configuration.
"""

import getpass
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "smoke"))  # last: it has names of packages
import rank_runs  # noqa: E402
import runs  # noqa: E402

RECIPE = rank_runs.JOB.replace("num_processes: 2,", "num_processes: 4,").replace("until: 24", "until: 400").replace("every: 8", "every: 40")
CONFIG = "submit: {to: slurm, nodes: 2, retries: 2, queue: low, env: {PLAIN: 'two  words', KEY: '${secret:KEY}'}}\n"
NODES = ("127.0.0.1", "127.0.0.2")
DAEMONS = ("munged", "slurmctld", "slurmd")
LIMIT = 150  # seconds for what takes 30 at most

# A requeued job waits for cred_expire seconds. JobRequeue: jobs of lost nodes start again.
CONF = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/linear
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=20
ReturnToService=2
SlurmdTimeout=20
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SlurmctldPort={port}
"""


class Slurm(rank_runs.Scratch):
    """A cluster of two nodes, and a folder from which jobs are submitted."""

    def __init__(self, binary):
        super().__init__(binary, RECIPE)
        self.folder = self.path / "cluster"
        for name in ("cluster", "cluster/state", "bin", *(f"cluster/{node}" for node in NODES)):
            (self.path / name).mkdir()
        (self.path / "bin/accel-run").symlink_to(self.binary)
        (self.path / "cluster.yaml").write_text(CONFIG)
        self.daemons = {}
        conf = CONF.format(folder=self.folder, host=socket.gethostname().partition(".")[0], user=getpass.getuser(), port=runs.reserved_port())
        for node in NODES:
            conf += f"NodeName={node} Port={runs.reserved_port()} CPUs=1\n"
        conf += "PartitionName=low Nodes=ALL Default=YES PriorityTier=1\nPartitionName=high Nodes=ALL PriorityTier=2\n"
        (self.folder / "slurm.conf").write_text(conf)

    def environment(self, **variables):
        return super().environment(PATH=f"{self.path}/bin:/usr/sbin:{os.environ['PATH']}", SLURM_CONF=str(self.folder / "slurm.conf"),
                                   KEY="hidden", **variables)

    def daemon(self, name, *words):
        with open(self.folder / f"{name}.out", "a") as log:
            self.daemons[name] = subprocess.Popen(words, env=self.environment(), stdout=log, stderr=log, start_new_session=True)

    def boot(self):
        """Starts the daemons; whether both nodes become idle."""
        self.path.chmod(0o711)  # munged refuses a socket in a folder that others cannot enter
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.daemon("munged", "munged", "--foreground", "--force", f"--key-file={key}", *(
            f"--{name}={self.folder}/munge.{name}" for name in ("socket", "pid-file", "log-file", "seed-file")))
        self.wait(lambda: (self.folder / "munge.socket").exists())
        self.daemon("slurmctld", "slurmctld", "-D")
        for node in NODES:
            self.start_node(node)
        return self.wait(lambda: self.tool("sinfo", "--noheader", "--Node", "--partition=low", "--format=%T").split() == ["idle"] * 2)

    def start_node(self, node):
        self.daemon(node, "slurmd", "-D", "-N", node)

    def lose_node(self, node):
        """The machine is switched off: its slurmd and everything that slurmd has started end at once."""
        self.daemons[node].kill()
        for pid, environment in self.processes().items():
            if environment.get("SLURMD_NODENAME") == node:
                rank_runs.send(pid, signal.SIGKILL)
        for stepd in self.step_daemons(node):
            rank_runs.send(stepd, signal.SIGKILL)
        self.daemons.pop(node).wait()

    def step_daemons(self, node):
        """slurmstepd of the node: it has no environment, but the log of the node open."""
        found = subprocess.run(["pgrep", "--full", "^slurmstepd: "], text=True, capture_output=True, check=False).stdout.split()
        log = str(self.folder / f"{node}.log")
        return [int(pid) for pid in found if log in (os.path.realpath(path) for path in pathlib.Path(f"/proc/{pid}/fd").glob("*"))]

    def tool(self, *words):
        done = subprocess.run(words, cwd=self.path, text=True, env=self.environment(), capture_output=True, check=False)
        return done.stdout + done.stderr

    def wait(self, done, limit=LIMIT):
        start = time.monotonic()
        while time.monotonic() - start < limit:
            if done():
                return True
            time.sleep(0.05)
        return False

    def submit(self, *words):
        """(the number of the job, what `submit` prints)."""
        shown = self.tool(str(self.binary), "submit", "job.yaml", "--config", "cluster.yaml", *words)
        found = re.search(r"submitted (\d+) to sbatch", shown)
        return found[1] if found else "", shown

    def job(self, number):
        """The fields of `scontrol show job`."""
        return dict(re.findall(r"(\w+)=(\S*)", self.tool("scontrol", "show", "job", number)))

    def wait_for_steps(self, count):
        return self.wait(lambda: self.recorded_steps() >= count)

    def wait_for_restart(self, number, count):
        """Whether the job runs for the time after `count` restarts."""
        def is_running():
            job = self.job(number)
            return job.get("Restarts") == str(count) and job.get("JobState") == "RUNNING"
        return self.wait(is_running)

    def ends(self, number):
        self.wait(lambda: self.job(number).get("JobState") not in ("PENDING", "RUNNING", "COMPLETING"))
        return self.job(number).get("JobState")

    def log(self):
        logs = sorted((self.run / "submit").glob("slurm-*.out"))
        return "".join(path.read_text() for path in logs) + self.tool("squeue") + self.tool("tail", "-n", "20", str(self.folder / "slurmctld.log"))

    def __exit__(self, *error):
        self.tool("scancel", "--user", getpass.getuser())
        self.wait(lambda: not self.tool("squeue", "--noheader").strip(), 30)
        for process in reversed(self.daemons.values()):
            process.terminate()
            process.wait()
        super().__exit__(*error)


def wanted_end(binary):
    """Of the run that no scheduler has touched."""
    with rank_runs.Scratch(binary, RECIPE) as scratch:
        code, errors = scratch.call("job.yaml")
        if code != 0:
            raise RuntimeError(errors)
        return scratch.end()


def check_warned(slurm, report, number):
    """Slurm sends the signal of `--signal` to the steps, as it does before the time limit."""
    slurm.wait_for_steps(20)
    report.check("the comment of the job has the step", slurm.wait(
        lambda: re.search(r"accel-run: step \d+", slurm.tool("squeue", "--noheader", "--format=%k", "--jobs", number))), slurm.log())
    running = slurm.tool(str(slurm.binary), "jobs", "runs/job")
    report.check("'jobs' shows it running", number in running and "RUNNING" in running, running)
    slurm.tool("scancel", "--signal=USR1", number)
    report.check("the warned run is requeued", slurm.wait_for_restart(number, 1), slurm.log())
    report.check("by its script, with exit code 75", "saved and stopped, requeueing" in slurm.log(), slurm.log())


def check_preempted(slurm, report, number):
    """A job of a partition of higher priority takes the nodes."""
    slurm.wait_for_steps(slurm.recorded_steps() + 20)
    slurm.tool("sbatch", "--partition=high", "--nodes=2", "--output=/dev/null", "--wrap=sleep 1")
    report.check("the preempted run is requeued", slurm.wait_for_restart(number, 2), slurm.log())


def check_lost_node(slurm, report, number):
    slurm.wait_for_steps(slurm.recorded_steps() + 20)
    slurm.lose_node(NODES[1])
    slurm.tool("scontrol", "update", f"NodeName={NODES[1]}", "State=DOWN", "Reason=lost")
    slurm.start_node(NODES[1])
    slurm.tool("scontrol", "update", f"NodeName={NODES[1]}", "State=RESUME")
    report.check("a run that lost a node is requeued", slurm.wait_for_restart(number, 3), slurm.log())


def check_stopped_thrice(slurm, report, wanted):
    number, shown = slurm.submit()
    report.check("sbatch takes the job", number != "", shown)
    check_warned(slurm, report, number)
    check_preempted(slurm, report, number)
    check_lost_node(slurm, report, number)
    report.check("the job completes", slurm.ends(number) == "COMPLETED", slurm.log())
    report.check("as the run that nobody stopped, bit for bit", slurm.end() == wanted, slurm.log())
    shown = "".join(path.read_text() for path in (slurm.run / "submit").glob("slurm-*.out"))
    report.check("its log has steps and no progress display", "\nstep 400/400" in shown and "\x1b" not in shown, shown)
    ended = slurm.tool(str(slurm.binary), "jobs", "runs/job")
    report.check("'jobs' shows its end", "COMPLETED" in ended, ended)


def check_no_restart(slurm, report):
    """The data is gone when the job starts."""
    rows = slurm.path / "rows.csv"
    rows.write_text("a,kind\n" + "1,x\n2,y\n3,x\n4,y\n" * 5)
    recipe = (slurm.path / "job.yaml").read_text().replace("{type: synthetic/glyphs, length: 88}", "{type: csv, path: rows.csv, target: kind}")
    (slurm.path / "job.yaml").write_text(recipe.replace("  eval: {type: synthetic/glyphs, length: 32}\n", "").replace("eval: {every: 40 steps}\n", ""))
    slurm.tool("scontrol", "update", "PartitionName=low", "State=DOWN")
    number, shown = slurm.submit("name=bad")
    rows.unlink()
    slurm.tool("scontrol", "update", "PartitionName=low", "State=UP")
    state = slurm.ends(number)
    log = "".join(path.read_text() for path in (slurm.path / "runs/bad/submit").glob("slurm-*.out"))
    report.check("a job that no restart repairs is not restarted", state == "FAILED" and slurm.job(number).get("Restarts") == "0"
                 and "exit code 2: no restart" in log, shown + log + slurm.log())


def main():
    binary, report = sys.argv[1], runs.Report()
    missing = [name for name in DAEMONS if not shutil.which(name, path=f"/usr/sbin:{os.environ['PATH']}")]
    if missing:
        print(f"FAILED  {', '.join(missing)}: not installed")
        return 1
    wanted = wanted_end(binary)
    with Slurm(binary) as slurm:
        report.check("Slurm runs", slurm.boot(), slurm.log())
        check_stopped_thrice(slurm, report, wanted)
        check_no_restart(slurm, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
