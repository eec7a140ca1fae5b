#!/usr/bin/env python3
"""Registers, spills and shared memory of each GPU kernel, as ptxas reports them, are those of a table.

    ptxas_budgets.py BUILD_FOLDER [--update]

The table is tests/smoke/ptxas_budgets.txt: kernel, architecture, registers, bytes spilled, bytes of shared memory.
A kernel that takes more than its line, or has none, fails; one that takes fewer registers is shown. The compiler's
version is that of tools/cuda_kernels.txt; another one's numbers differ, and --update enters them.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests/smoke/ptxas_budgets.txt"
SKIPPED = 77
HEADER = "# kernel architecture registers spilled shared\n"
ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def short(name):
    """norm::NormRows<float,4,true> of the demangled run_kernel<...>(...)."""
    inside = re.search(r"run_kernel<(.*)>\(", name).group(1)
    for word in ("accel::cuda::", "accel::", "(anonymous namespace)::", "(bool)", " "):
        inside = inside.replace(word, "")
    return inside


def measured(folder):
    """{(kernel, architecture): (registers, spilled, shared)} of the compiler's reports."""
    found, entry, spilled = {}, None, 0
    for report in sorted(folder.glob("*.ptxas")):
        for line in report.read_text().splitlines():
            if match := ENTRY.search(line):
                entry, spilled = match.groups(), 0
            elif match := SPILLS.search(line):
                spilled = int(match.group(1)) + int(match.group(2))
            elif entry and (match := USED.search(line)):
                shared = SHARED.search(line)
                found[entry] = (int(match.group(1)), spilled, int(shared.group(1)) if shared else 0)
                entry = None
    names = subprocess.run(["c++filt"], input="\n".join(name for name, _ in found), text=True, check=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    return {(short(name), architecture): numbers
            for name, ((_, architecture), numbers) in zip(names, found.items())}


def planned():
    rows = [line.split() for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    return {(row[0], row[1]): tuple(int(word) for word in row[2:]) for row in rows}


def problems(found, table):
    """What exceeds the table, is missing in it, or is in it alone."""
    lines = []
    for key in sorted(found.keys() | table.keys()):
        name = f"{key[0]} for {key[1]}"
        if key not in table:
            lines.append(f"{name}: not in the table, it takes {found[key]}")
        elif key not in found:
            lines.append(f"{name}: in the table, but not compiled")
        else:
            for what, has, may in zip(("registers", "bytes spilled", "bytes of shared memory"), found[key], table[key]):
                if has > may:
                    lines.append(f"{name}: {has} {what}, at most {may} are planned")
    return lines


def main():
    folder = pathlib.Path(sys.argv[1]) / "kernels/cuda"
    if not list(folder.glob("*.ptxas")):
        print(f"skipped: no reports of a CUDA compiler in {folder}: 'tools/bootstrap.sh cuda-kernels' brings one")
        return SKIPPED
    found = measured(folder)
    if "--update" in sys.argv:
        rows = [" ".join(map(str, (*key, *numbers))) for key, numbers in sorted(found.items())]
        TABLE.write_text(HEADER + "\n".join(rows) + "\n")
    table = planned()
    # The check itself: one register more, a spill and an unknown kernel are found.
    key = next(iter(table))
    worse = {**table, key: tuple(number + 1 for number in table[key]), ("other", "sm_80"): (1, 0, 0)}
    assert len(problems(worse, table)) == 4, problems(worse, table)
    lines = problems(found, table)
    print("\n".join(lines))
    fewer = [key for key in found.keys() & table.keys() if found[key] < table[key]]
    print(f"{len(found)} kernels, {len(lines)} beyond their budget, {len(fewer)} below it")
    print(f"most registers: {max(numbers[0] for numbers in found.values())}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
