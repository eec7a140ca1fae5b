#!/usr/bin/env python3
"""`plan` and `estimate-memory`: what is told, and how they end.   plans.py BINARY"""

import json
import re
import subprocess
import sys

import runs

ESTIMATE = """\
memory for 'model': 768 numbers, the largest layer is 'h.0'
dtype      largest layer    total size  training using Adam
float32          2.00 KB       3.00 KB             12.00 KB
float16          1.00 KB       1.50 KB              6.00 KB
int8        512.00 bytes  768.00 bytes                  N/A
int4        256.00 bytes  384.00 bytes                  N/A
"""


def tell(scratch, *words):
    done = subprocess.run([scratch.binary, *words], cwd=scratch.path, env=runs.ENVIRONMENT, text=True,
                          capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


def check(condition, what):
    if not condition:
        sys.exit(f"plans: {what}")


def write_model(folder):
    """A safetensors file of zeros: an embedding of 256 numbers and a block of 512."""
    folder.mkdir()
    header = json.dumps({"wte.weight": {"dtype": "F32", "shape": [16, 16], "data_offsets": [0, 1024]},
                         "h.0.mlp.weight": {"dtype": "F32", "shape": [32, 16],
                                            "data_offsets": [1024, 3072]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(3072))


def main():
    with runs.Scratch(sys.argv[1]) as scratch:
        code, out, errors = tell(scratch, "plan", "job.yaml", "--ranks", "1,2,4")
        check(code == 0 and out.splitlines()[-1] == "fits", f"a small job: {code} {out} {errors}")
        check("  model      mlp, 19,090 parameters\n" in out, out)
        check(re.search(r"^batch = .*16 = 16 x 1 x 1 +16 = 8 x 1 x 2 +16 = 4 x 1 x 4$", out, re.MULTILINE), out)
        check(re.search(r"^  weights +74.6 KiB +74.6 KiB +74.6 KiB$", out, re.MULTILINE), out)
        check(not (scratch.path / "runs").exists(), "a plan left a run folder")
        code, out, errors = tell(scratch, "plan", "job.yaml", "--ranks", "1,two")
        check(code == 2 and "error: '--ranks' has 'two', which is no number of ranks" in errors, errors)
        code, out, errors = tell(scratch, "plan", "job.yaml", "--ranks", "3")
        check(code == 2 and "batch 16 cannot be shared by 3 ranks" in errors, errors)
        write_model(scratch.path / "model")
        code, out, errors = tell(scratch, "estimate-memory", "model")
        check(code == 0 and out == ESTIMATE, f"{code} {out} {errors}")
        code, out, errors = tell(scratch, "estimate-memory", "nothing")
        check(code == 3 and "'nothing' has no weights" in errors, f"{code} {errors}")


if __name__ == "__main__":
    main()
