"""What the tests of whole runs share."""

import contextlib
import faulthandler
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

# A test that waits for ever says where before it is ended.
if "ACCEL_TEST_LIMIT" in os.environ:
    faulthandler.dump_traceback_later(float(os.environ["ACCEL_TEST_LIMIT"]))
# Nor does one take a whole machine's memory, which would stop that machine. In bytes, for each process.
resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, resource.getrlimit(resource.RLIMIT_DATA)[1]))
# One thread: these jobs are so small that more would only wait for one another.
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1")

JOB = """
model: {type: mlp, hidden_sizes: [24], dropout: 0.3}
data:
  train: {type: synthetic/glyphs, length: 64}
  eval: {type: synthetic/glyphs, length: 32}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.01}
train: {until: 24 steps, batch: 16}
accelerator: {num_cpu_threads_per_process: 1}
eval: {every: 8 steps}
checkpoint: {every: 1 steps, keep: {last: 2}}
"""


reserved = []


def reserved_port():
    """A port of the loopback device that stays bound until this test ends. It refuses connections until a socket with
    SO_REUSEADDR listens at it; the kernel gives it to no other process, whose listeners a test would otherwise meet."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    reserved.append(holder)
    return holder.getsockname()[1]


def besides_overlap(errors):
    """The lines of standard error but for the warning of eval samples that are trained on."""
    return [line for line in errors.splitlines() if "eval samples are in the training data too" not in line]


def can_trace():
    """Whether strace is here and may inject faults."""
    probe = ["strace", "-f", "-e", "inject=fsync:error=EIO", "true"]
    return shutil.which("strace") and subprocess.run(probe, capture_output=True, check=False).returncode == 0


def children_of(pid):
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except (OSError, IndexError):
            continue  # it has ended
    return sorted(found)


def workers_of(process):
    """Its ranks, or the process itself."""
    return children_of(process.pid) or [process.pid]


def is_stopped(pid):
    """Also of a process that has ended."""
    try:
        stats = [path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:
        return False  # a thread ended: look again
    return all(stat.rpartition(")")[2].split()[0] in "TZX" for stat in stats)


@contextlib.contextmanager
def stopped(pids):
    """The processes are stopped meanwhile: no thread of them runs."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    while not all(is_stopped(pid) for pid in pids):
        time.sleep(0.0005)
    yield
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


class Scratch(tempfile.TemporaryDirectory):
    """A folder with `job.yaml` in it, gone at the end."""

    def __init__(self, binary, recipe=JOB):
        super().__init__()
        self.path = pathlib.Path(self.name)
        self.binary = pathlib.Path(binary).resolve()
        (self.path / "job.yaml").write_text(recipe)
        self.run = self.path / "runs" / "job"

    def __enter__(self):
        super().__enter__()
        return self

    def start(self, *words):
        return subprocess.Popen([self.binary, *words], cwd=self.path, text=True, env=ENVIRONMENT,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def call(self, *words):
        """(exit code, standard error)."""
        process = self.start(*words)
        _, errors = process.communicate()
        return process.returncode, errors

    def holds_lock(self, process):
        """Or rank 0 that it launched."""
        lock = self.run / "run.lock"
        text = lock.read_text() if lock.exists() else ""
        return text.startswith(f"process {process.pid} ") or f"\nlauncher {process.pid}\n" in text

    def wait_for_lock(self, process):
        while process.poll() is None and not self.holds_lock(process):
            time.sleep(0.005)

    def staged(self):
        folder = self.run / "staging"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def checkpoints(self):
        folder = self.run / "checkpoints"
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        return sorted(int(name.removeprefix("checkpoint_")) for name in names)

    def exact_lines(self):
        """The lines of metrics.jsonl that equal runs share: those of steps and evaluations."""
        lines = (self.run / "metrics.jsonl").read_text().splitlines()
        return [line for line in lines if '"loss_bits"' in line or '"eval"' in line]

    def weights(self):
        newest = self.run / "checkpoints" / f"checkpoint_{self.checkpoints()[-1]}"
        return [(newest / name).read_bytes() for name in ("model.safetensors", "optimizer.bin")]

    def events(self):
        lines = (self.run / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["event"] for line in lines if '"event"' in line]


class Report:
    """Prints each check and remembers whether all held."""

    def __init__(self):
        self.failed = 0

    def check(self, name, good, detail=""):
        self.failed += not good
        print(("ok      " if good else "FAILED  ") + name + (f": {detail}" if detail and not good else ""))
