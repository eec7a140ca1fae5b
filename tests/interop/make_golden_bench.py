"""Writes golden/bench.json: the first losses of `bench/suite.py --short`'s works in plain PyTorch.

    python tests/interop/make_golden_bench.py [--check]

--check compares instead.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
GOLDEN = HERE / "golden/bench.json"
sys.path.insert(0, str(HERE.parents[1] / "bench"))

import peer  # bench
import works  # bench

PRECISIONS = ("fp32", "bf16")
TOLERANCE = 1e-2  # what bf16 leaves from one processor to the next


def losses_of_all():
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        all_works = works.works_of(works.WORKS, short=True)
        works.write_data(Path(folder), all_works)
        for name, work in all_works.items():
            for precision in PRECISIONS:
                task = dict(work, precision=works.mixed_precision(precision), threads=1)
                found[f"{name}_{precision}"] = peer.PEERS["eager"](task)["losses"]
        os.chdir(HERE)
    return found


if __name__ == "__main__":
    found = losses_of_all()
    if sys.argv[1:] == ["--check"]:
        wanted = json.loads(GOLDEN.read_text())["losses"]
        assert found.keys() == wanted.keys(), f"{list(found)} for {list(wanted)}"
        for name, losses in found.items():
            assert all(abs(a - b) <= TOLERANCE * b for a, b in zip(losses, wanted[name], strict=True)), (name, losses)
    else:
        lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(losses)}" for name, losses in found.items())
        GOLDEN.write_text(f'{{\n  "losses": {{\n{lines}\n  }}\n}}\n')
