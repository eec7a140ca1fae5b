#!/usr/bin/env python3
"""Damages files of checkpoints, one bit or one truncation at a time: each damage is found.

    damage.py ACCEL_RUN [FLIPS [TRUNCATIONS]]

`checkpoint verify` reads copies of a checkpoint, each with one flipped bit or cut at one offset, in a
file and at an offset drawn at random, the manifest included. It must name every copy as damaged. Every
40th damage is also done to the newest checkpoint of a run: the run resumes from the one before with a
warning and ends as an uninterrupted one, and the damaged one is refused by name with exit code 4.
"""

import collections
import os
import random
import re
import shutil
import sys
import time

import runs

RECIPE = runs.JOB.replace("until: 24 steps", "until: 4 steps").replace("length: 64", "length: 64, size: 8")
RECIPE = RECIPE.replace("length: 32", "length: 32, size: 8").replace("hidden_sizes: [24]", "hidden_sizes: [6]")
RECIPE += "callbacks: [{type: ema, decay: 0.9}]\n"
COPIES = 200  # that one call of `verify` reads


def flip(path, draw):
    """What was done."""
    content = bytearray(path.read_bytes())
    bit = draw.randrange(len(content) * 8)
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    return f"bit {bit % 8} of byte {bit // 8} of {path.name}"


def truncate(path, draw):
    size = path.stat().st_size
    left = draw.choice([0, size - 1, draw.randrange(size)])
    os.truncate(path, left)
    return f"{path.name} cut to {left} of {size} bytes"


def named(scratch, run):
    """The names of the checkpoints that `checkpoint verify` calls damaged."""
    process = scratch.start("checkpoint", "verify", str(run))
    output, errors = process.communicate()
    if process.returncode != 4:
        return set()
    return set(re.findall(r"^checkpoint '\S*/(checkpoint_\d+)' is damaged: .", output + errors, re.MULTILINE))


def damage_copies(scratch, how, count, draw):
    """(kinds of files that were damaged, damages that `verify` did not name)."""
    source, run = scratch.run / "checkpoints/checkpoint_4", scratch.path / "copies"
    names, silent, files = sorted(path.name for path in source.iterdir()), [], collections.Counter()
    for start in range(0, count, COPIES):
        done = {}
        for number in range(start, min(count, start + COPIES)):
            copy = run / f"checkpoints/checkpoint_{number + 1}"
            shutil.copytree(source, copy)
            # By size, as rotten bits are, or by file, so that small ones are met as well.
            sizes = [(source / name).stat().st_size for name in names]
            name = draw.choices(names, sizes)[0] if draw.random() < 0.5 else draw.choice(names)
            files[name] += 1
            done[copy] = how(copy / name, draw)
        found = named(scratch, run)
        silent += [what for copy, what in done.items() if copy.name not in found]
        shutil.rmtree(run)
    return files, silent


def damage_newest(scratch, how, draw):
    """What is wrong after a damage of the newest checkpoint; None when all is as it must be."""
    base, end = scratch.path / "base", scratch.path / "end"
    shutil.rmtree(scratch.run)
    shutil.copytree(base, scratch.run)
    newest = scratch.run / "checkpoints/checkpoint_4"
    what = how(draw.choice(sorted(newest.iterdir())), draw)
    code, errors = scratch.call("job.yaml", "name=other", f"checkpoint.resume={newest}")
    if code != 4 or "error: " not in errors:
        return f"{what}: resume from it by name: exit {code}: {errors}"
    code, errors = scratch.call("job.yaml")
    if code != 0 or "checkpoint_4" not in errors or "warning" not in errors:
        return f"{what}: resume: exit {code}: {errors}"
    for name in ("model.safetensors", "optimizer.bin", "accel_run.safetensors"):
        if (newest / name).read_bytes() != (end / name).read_bytes():
            return f"{what}: the resumed run ends with another {name}"
    return None


def main():
    flips = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    truncations = int(sys.argv[3]) if len(sys.argv) > 3 else flips // 5
    report, draw, start = runs.Report(), random.Random(5), time.monotonic()
    with runs.Scratch(sys.argv[1], RECIPE) as scratch:
        code, errors = scratch.call("job.yaml")
        report.check("the run ends well", code == 0, errors)
        shutil.copytree(scratch.run, scratch.path / "base")
        shutil.copytree(scratch.run / "checkpoints/checkpoint_4", scratch.path / "end")
        for name, how, count in (("flipped bits", flip, flips), ("truncations", truncate, truncations)):
            files, silent = damage_copies(scratch, how, count, draw)
            where = ", ".join(f"{files[name]} in {name}" for name in sorted(files))
            report.check(f"{count} {name} are all found: {where}", not silent, f"{len(silent)} are not: {silent[:5]}")
            faults = [fault for fault in (damage_newest(scratch, how, draw) for _ in range(max(1, count // 40))) if fault]
            report.check(f"{max(1, count // 40)} {name} in the newest checkpoint cost nothing", not faults, "\n".join(faults))
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
