#!/usr/bin/env python3
"""The GPU kit on the fake device: it packs, each part ends as it must without a GPU, and a fault fails its part.

    gpu_kit.py BUILD_FOLDER TORCH_DIR
"""

import json
import pathlib
import subprocess
import sys

import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = {"waits", "out_of_memory"}
# By PyTorch's Python, which no test needs.
OF_PYTHON = {"ceilings"}


def main():
    build, torch = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    report = runs.Report()
    with runs.Scratch(build / "accel-run") as scratch:
        kit, out = scratch.path / "kit", scratch.path / "out"

        def call(*command):
            done = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  cwd=scratch.path)
            return done.returncode, done.stdout

        code, text = call(sys.executable, ROOT / "tools/gpu_kit/pack.py", build, kit)
        report.check("the kit is packed", code == 0, text)
        libraries = [path.name for path in kit.rglob("libtorch*") if "stubs" not in str(path)]
        report.check("it has no libtorch of its own", not libraries, libraries)
        sys.path.insert(0, str(kit))
        from kit.parts import PARTS

        parts = [name for name in PARTS if name not in OF_PYTHON]
        code, text = call(kit / "run", "--out", out, "--torch", torch, "--device", "fake", "--minutes", "8", "--parts", *parts)
        report.check("the kit ends well", code == 0 and "GPU: none" in text, text)
        found = json.loads((out / "kit.json").read_text())["parts"]
        for name in parts:
            wanted = "skipped" if name in SKIPPED else "passed"
            report.check(f"{name}: {wanted}", found.get(name, {}).get("result") == wanted, found.get(name))
        losses = found["equality"]["numbers"]
        report.check("losses were compared", len(losses) == 4 and max(losses.values()) < 1e-5, losses)
        losses = [value for value in found["fused"]["numbers"].values() if isinstance(value, float)]
        report.check("losses of fused kernels differ, a little", len(losses) == 2 and 0 < max(losses) < 1e-5, found["fused"])
        tests = found["kernels"]["numbers"]
        report.check("each kernel was tested", "CudaNormTest/0" in tests and "0 of" not in str(tests), tests)
        page = (out / "kit.md").read_text()
        report.check("the page has each part", all(f"## {name}\n" in page for name in parts), page)
        # A fault: the device's library is another one.
        library = kit / "libaccel_host_device.so"
        library.unlink()
        library.write_bytes((kit / "libcount_waits.so").read_bytes())
        code, text = call(kit / "run", "--out", out, "--torch", torch, "--device", "fake", "--parts", "exactness", "environment")
        found = json.loads((out / "kit.json").read_text())["parts"]
        report.check("a failed part stops no other", code == 1 and found["exactness"]["result"] == "failed" and
                     found["environment"]["result"] == "passed", text)
        report.check("and says why", "libaccel_host_device.so', which has no device: " in text and
                     "unset ACCEL_HOST_DEVICE to compute on a GPU" in text, text)
        code, text = call(kit / "run", "--out", out, "--torch", scratch.path)
        report.check("a folder without libtorch is refused", code == 1 and "has no lib/libtorch_cpu.so" in text, text)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
