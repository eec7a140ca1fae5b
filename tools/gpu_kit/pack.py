#!/usr/bin/env python3
"""Packs the GPU kit of a finished build: a folder for machines with a GPU and a Python with PyTorch 2.11.

    pack.py BUILD FOLDER

It holds the executable without libtorch, which is that of the machine's PyTorch.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60e6  # bytes
# As in the wheel, these come from the Python packages torch and nvidia-*.
OF_TORCH = ("libtorch*", "libc10*", "libcu*", "libgomp*")
OF_ARROW = ("libaccel_arrow*", "libarrow*", "libparquet*")  # no part reads Parquet


def main():
    build, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run(["cmake", "--install", build, "--prefix", folder / "accel-run", "--component", "runtime", "--strip"],
                   check=True, stdout=subprocess.DEVNULL)
    for pattern in OF_TORCH + OF_ARROW:
        for path in (folder / "accel-run/lib/accel-run").glob(pattern):
            path.unlink()
    source = ROOT / "tools/gpu_kit"
    shutil.copy(source / "run", folder)
    shutil.copytree(source / "kit", folder / "kit", ignore=shutil.ignore_patterns("__pycache__", "*.c"))
    shutil.copy(ROOT / "tests/interop/models.py", folder / "kit")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", folder / "libcount_waits.so", source / "kit/count_waits.c", "-ldl"],
                   check=True)
    for name in ("tests/libaccel_host_device.so", "tests/libaccel_cuda_emulation.so", "tests/unit/kernels/cuda_kernels_test"):
        shutil.copy(build / name, folder)
        subprocess.run(["strip", folder / Path(name).name], check=True)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    print(f"{size / 1e6:.1f} MB  {folder}")
    if size > LIMIT:
        raise SystemExit(f"error: the kit may have {LIMIT / 1e6:.0f} MB")


main()
