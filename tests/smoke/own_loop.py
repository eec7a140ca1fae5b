#!/usr/bin/env python3
"""The program of docs/accelerate-methods.md, built against an installed library as the page says.

    own_loop.py BUILD_FOLDER

It learns, alone and on two ranks; stopped and resumed it ends bit for bit as one left alone.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]


def block(language):
    text = (ROOT / "docs/accelerate-methods.md").read_text()
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return found


def must(command, folder):
    done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"exit {done.returncode}: {command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def build(build_folder, folder):
    must(["cmake", "--install", build_folder, "--component", "library", "--prefix", folder / "installed"], folder)
    (folder / "CMakeLists.txt").write_text(block("cmake"))
    (folder / "loop.cpp").write_text(block("cpp"))
    cache = (pathlib.Path(build_folder) / "CMakeCache.txt").read_text()
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.MULTILINE)[1]
    must(["cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={folder / 'installed'}",
          f"-DCMAKE_CXX_COMPILER={compiler}"], folder)
    must(["cmake", "--build", folder / "build"], folder)


def call(folder, world, *words):
    """(exit codes, what was printed) of all ranks."""
    port, processes = runs.reserved_port(), []
    for rank in range(world):
        environment = dict(runs.ENVIRONMENT)
        if world > 1:
            environment |= {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank),
                            "LOCAL_WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        processes.append(subprocess.Popen([folder / "build" / "loop", *words], cwd=folder, env=environment, text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    said = [process.communicate()[0] for process in processes]
    return [process.returncode for process in processes], said


def losses(said):
    return [float(line.split()[1]) for line in said.splitlines()]


def check(folder, world, report):
    straight, half, end = (f"{name}{world}" for name in ("straight", "half", "end"))
    codes, said = call(folder, world, "40", straight)
    report.check(f"{world} ranks train", codes == [0] * world, "".join(said))
    if any(codes):
        return
    curve = losses(said[0])
    report.check(f"{world} ranks learn", len(curve) == 4 and curve[-1] < 0.5 * curve[0], said[0])
    report.check(f"{world} ranks: one speaks", not any(said[1:]), "".join(said))
    call(folder, world, "20", half)
    call(folder, world, "20", end, half)
    for name in ("model.safetensors", "optimizer.bin", *(f"random_states_{rank}.pkl" for rank in range(world))):
        same = (folder / straight / name).read_bytes() == (folder / end / name).read_bytes()
        report.check(f"{world} ranks: {name} is that of a run left alone", same)
    codes, said = call(folder, world, "2", straight)
    report.check(f"{world} ranks: a folder that is there stays", all(codes) and "straight" in "".join(said),
                 "".join(said))


def main():
    report = runs.Report()
    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text)
        build(os.path.abspath(sys.argv[1]), folder)
        for world in (1, 2):
            check(folder, world, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
