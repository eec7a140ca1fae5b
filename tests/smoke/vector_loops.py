#!/usr/bin/env python3
"""The loops of kernels/cpu are vectorized in their variants for AVX2 and AVX-512.

    vector_loops.py BUILD_FOLDER

Both variants of a loop have about the same instructions on registers of their own width, the wider ones sometimes unrolled.
A variant with far fewer computes one number at a time, wholly or in part: the compiler kept its branches, for instance.
None divides by a constant: the compiler has then repeated a division for the value of a clamp.
"""

import collections
import pathlib
import re
import subprocess
import sys

SKIPPED = 77
REGISTERS = {"avx2": "%ymm", "avx512": "%zmm"}
FUNCTION = re.compile(r"^[0-9a-f]+ <(?:accel::)?(\w+_cpu)_(avx2|avx512)\((.*)\)(?: \[clone .*\])?>:$")
ARITHMETIC = re.compile(r"^\s+[0-9a-f]+:\s+v(?:fn?m(?:add|sub)\d+|add|sub|mul|div|min|max|cmp\w*)p[sd]\s+(.*)$")
DIVISION = re.compile(r"^\s+[0-9a-f]+:\s+vdivps\s+0x[0-9a-f]+\(%rip\)")
LEAST_SHARE = 0.4  # of the other variant's


def instructions(objects):
    """{(loop, parameters): {variant: floating-point instructions on its widest registers}}, and the loops that divide by
    a constant."""
    found, divides, counts = collections.defaultdict(dict), set(), None
    listing = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", *map(str, objects)], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    for line in listing.splitlines():
        if line.endswith(">:"):
            match = FUNCTION.match(line)
            loop = (match[1], match[3]) if match else None
            counts, variant = (found[loop], match[2]) if match else (None, None)
            if counts is not None:
                counts[variant] = 0
        elif counts is not None and (match := ARITHMETIC.match(line)):
            counts[variant] += REGISTERS[variant] in match[1]
            if DIVISION.match(line):
                divides.add(loop)
    return found, divides


def main():
    folder = pathlib.Path(sys.argv[1]) / "kernels/CMakeFiles/accel_kernels.dir/cpu"
    objects = sorted(folder.glob("*_cpu.cpp.o"))
    if not objects:
        print(f"no objects of kernels/cpu in '{folder}'")
        return SKIPPED
    failures = 0
    found, divides = instructions(objects)
    for (loop, parameters), counts in sorted(found.items()):
        passes = counts.keys() == REGISTERS.keys() and min(counts.values()) > LEAST_SHARE * max(counts.values())
        passes = passes and (loop, parameters) not in divides
        failures += not passes
        shown = ", ".join(f"{variant} {count}" for variant, count in sorted(counts.items()))
        print(f"{'ok     ' if passes else 'FAILED '} {loop}({parameters}): vector instructions {shown}"
              f"{', and a division by a constant' if (loop, parameters) in divides else ''}")
    if not found:
        print("FAILED  no loop was found")
    return 1 if failures or not found else 0


if __name__ == "__main__":
    sys.exit(main())
