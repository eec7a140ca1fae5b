#!/usr/bin/env python3
"""`train.micro_batch: auto` finds what memory holds, alike on all ranks.   micro_batch.py ACCEL_RUN

Memory is short because the processes may not have more than LIMIT bytes of addresses, in which 2,400
samples do not fit and 1,200 do with 300 MiB to spare; the wide last layer takes much memory and little
arithmetic. The run must be that with the micro-batch found, bit for bit: dropout draws nothing for the
passes that failed.
"""

import json
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

import runs

LIMIT = 1_600_000 * 1024
JOB = """
model: {{type: mlp, hidden_sizes: [16, 32768], dropout: 0.2}}
data: {{train: {{type: synthetic/glyphs, length: {batch}}}, loader: {{workers: 1}}}}
optimizer: {{type: sgd, lr: 0.1}}
train: {{until: 2 steps, batch: {batch}}}
accelerator: {{num_processes: {ranks}, num_cpu_threads_per_process: 1}}
"""


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))


def run(binary, scratch, limit, *words):
    done = subprocess.run([binary, "job.yaml", *words], cwd=scratch, capture_output=True, text=True,
                          preexec_fn=limit_memory if limit else None)
    return done.returncode, done.stdout + done.stderr


def steps(scratch, name):
    lines = (pathlib.Path(scratch) / "runs" / name / "metrics.jsonl").read_text().splitlines()
    return [line for line in lines if "loss_bits" in json.loads(line)]


def check(binary, report, ranks):
    with tempfile.TemporaryDirectory() as scratch:
        (pathlib.Path(scratch) / "job.yaml").write_text(JOB.format(batch=2400 * ranks, ranks=ranks))
        code, said = run(binary, scratch, True, "name=found")
        sizes = re.findall(r"a micro-batch of \d+ samples does not fit into memory: retrying with micro-batches of (\d+)\n", said)
        report.check(f"{ranks} ranks find a smaller micro-batch", code == 0 and sizes, said[-800:])
        if not sizes:
            return
        code, said = run(binary, scratch, False, "name=given", f"train.micro_batch={sizes[-1]}")
        report.check("and train as if given", code == 0 and steps(scratch, "found") ==
                     steps(scratch, "given"), said[-800:])
        code, said = run(binary, scratch, True, "name=fixed", f"train.micro_batch=2400")
        report.check("what is asked for and does not fit ends with 8", code == 8, f"{code}\n{said}")


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    report = runs.Report()
    for ranks in (1, 2):
        check(binary, report, ranks)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
