#!/usr/bin/env python3
"""docs/accelerate-methods.md names every public method of the installed Accelerate's class, once, and
what it calls ours exists.   check_methods.py
"""

import re
import sys
from pathlib import Path

from accelerate import Accelerator

ROOT = Path(__file__).resolve().parents[2]
OURS = {2: ["core/api/step.h", "core/api/ranks.h", "core/api/task.h"], 3: ["accel/accelerator.h", "core/api/ranks.h", "core/api/optimizer.h"]}
OF_LIBTORCH = {"named_parameters"}


def rows():
    for line in (ROOT / "docs/accelerate-methods.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            yield cells


def main():
    table = list(rows())
    named = [cells[0].strip("`") for cells in table]
    theirs = {name for name in dir(Accelerator) if not name.startswith("_")}
    faults = [f"'{name}' is not in the table" for name in sorted(theirs - set(named))]
    faults += [f"Accelerate has no '{name}'" for name in sorted(set(named) - theirs)]
    faults += [f"'{name}' is there twice" for name in sorted({name for name in named if named.count(name) > 1})]
    faults += [f"'{cells[0]}' has {len(cells)} cells" for cells in table if len(cells) != 5]
    for column, headers in OURS.items():
        text = "".join((ROOT / header).read_text() for header in headers)
        for cells in table:
            for method in re.findall(r"(\w+)\(\)", cells[column]):
                if method not in OF_LIBTORCH and not re.search(rf"\b{method}\(", text):
                    faults.append(f"{cells[0]}: there is no '{method}()' in {', '.join(headers)}")
    print("\n".join(faults) or f"{len(named)} methods of Accelerate, each with its counterpart")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
