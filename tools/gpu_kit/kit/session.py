"""The session of a kit: its folders, time limit, and runs of accel-run in them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from .works import PEERS, WORKS

KIT = Path(__file__).resolve().parents[1]


class PartFailed(Exception):
    """A finding that fails its part."""


class Session:
    """device: cuda, fake (host memory, for tests) or cpu. small: works of tiny shapes."""

    def __init__(self, out, torch, device, minutes):
        self.out, self.torch, self.device = out, torch, device
        self.works, self.peers = list(WORKS), PEERS  # of the part speed
        self.small = device != "cuda"
        self.end = time.monotonic() + 60 * minutes
        self.prefix = out / "prefix"
        self.work = out / "work"

    def prepare(self):
        """A prefix with the given torch, where accel-run finds libtorch as in a virtual environment or an archive."""
        shutil.rmtree(self.prefix, ignore_errors=True)
        shutil.copytree(KIT / "accel-run", self.prefix, symlinks=True)
        self.work.mkdir(exist_ok=True)
        if not (self.torch / "version.py").exists():  # libtorch without Python
            for path in (self.torch / "lib").glob("*.so*"):
                (self.prefix / "lib/accel-run" / path.name).symlink_to(path)
            return
        packages = self.prefix / "lib/python3/site-packages"
        packages.mkdir(parents=True)
        (packages / "torch").symlink_to(self.torch)
        if (self.torch.parent / "nvidia").is_dir():
            (packages / "nvidia").symlink_to(self.torch.parent / "nvidia")

    @property
    def binary(self):
        return self.prefix / "bin/accel-run"

    def left(self):
        return self.end - time.monotonic()

    def environment(self, **more):
        given = {**os.environ, **more}
        if self.device == "fake":
            given["ACCEL_HOST_DEVICE"] = str(KIT / "libaccel_host_device.so")
        return given

    def kernel_library(self):
        """The environment variable for this build's GPU kernels, or for those that run on the CPU; empty without a library."""
        path = self.prefix / "lib/accel-run/libaccel_cuda.so"
        if self.device != "cuda":
            path = KIT / "libaccel_cuda_emulation.so"
        return {"ACCEL_CUDA_LIBRARY": str(path)} if path.exists() else {}

    def loader_path(self):
        """Where the loader finds CUDA's runtime, for a program that is not in the prefix."""
        folders = [self.prefix / "lib/accel-run", self.torch / "lib", *self.torch.parent.glob("nvidia/*/lib")]
        return {"LD_LIBRARY_PATH": os.pathsep.join(map(str, folders))}

    def call(self, *command, limit=120, environment=None, check=True):
        """Output and exit code of a command in the work folder. It is killed with its children at the limit."""
        limit = min(limit, max(5, self.left()))
        words, environment = [str(word) for word in command], environment or self.environment()
        try:
            process = subprocess.Popen(words, cwd=self.work, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       env=environment, start_new_session=True)
        except OSError as error:
            raise PartFailed(f"cannot start '{words[0]}': {error.strerror}") from None
        shown = " ".join([Path(words[0]).name, *words[1:3]])
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            raise PartFailed(f"'{shown}' took more than {limit:.0f} s: {output[-500:]}") from None
        if check and process.returncode:
            raise PartFailed(f"'{shown}' ended with {process.returncode}: {output[-1500:]}")
        return output, process.returncode

    def train(self, name, recipe, *words, device=None, limit=120, environment=None):
        """Trains a recipe under a name; its output. device: cuda or cpu."""
        path = self.work / f"{name}.yaml"
        path.write_text(recipe)
        on = device or ("cpu" if self.device == "cpu" else "cuda")
        shutil.rmtree(self.work / "runs" / name, ignore_errors=True)
        return self.call(self.binary, path.name, f"accelerator.device={on}", *words, limit=limit, environment=environment)[0]

    def record(self, name):
        lines = (self.work / "runs" / name / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def losses(self, name):
        return [line["loss"] for line in self.record(name) if "loss_bits" in line]

    def bits(self, name):
        return [line["loss_bits"] for line in self.record(name) if "loss_bits" in line]

    def python(self, script, *words, limit=120):
        """JSON of a script of the kit, run with PyTorch's Python."""
        result = self.work / "result.json"
        result.unlink(missing_ok=True)
        path = {"PYTHONPATH": os.pathsep.join([str(self.torch.parent), str(KIT), os.environ.get("PYTHONPATH", "")])}
        self.call(sys.executable, KIT / "kit" / script, result, *words, limit=limit, environment=self.environment(**path))
        return json.loads(result.read_text())
