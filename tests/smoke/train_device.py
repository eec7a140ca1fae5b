#!/usr/bin/env python3
"""Training on a device that stands in for a GPU gives the CPU's bits, with and without graphs, and ends at the same step.

    train_device.py ACCEL_RUN HOST_DEVICE_LIBRARY
"""

import os
import struct
import subprocess
import sys

import runs

SAMPLES, FEATURES = 64, 6
JOB = """
model: {type: mlp, hidden_sizes: [16]}
task: {type: classification, class_weights: [1, 2, 3]}
data:
  train: {type: npy, inputs: x.npy, targets: y.npy}
  loader: {workers: 0, shuffle: false}
optimizer: {type: adamw, lr: 0.01}
train: {until: 14 steps, batch: 4, max_grad_norm: 0.5}
log: {every: 5 steps}
checkpoint: {every: 6 steps}
accelerator: {num_cpu_threads_per_process: 1, kernels: reference}
"""
DEVICE, FSDP = "accelerator.device=cuda", "accelerator.fsdp={stage: 3}"
PLACES = {"cpu": (), "fsdp_cpu": (FSDP,), "device": (DEVICE,), "graph": (DEVICE, "accelerator.cuda_graph=true"),
          "fsdp_device": (DEVICE, FSDP)}
OPTIMIZERS = ("{type: lion, lr: 0.001, weight_decay: 0.1}", "{type: rmsprop, momentum: 0.9, centered: true}", "{type: muon}",
              "{type: lamb, lr: 0.01}", "{type: adafactor, weight_decay: 0.1}", "{type: adamw_8bit, min_8bit_size: 9}",
              "{type: schedule_free_adamw, lr: 0.01, warmup_steps: 3}", "{type: adamw, fused: false}")


def write_array(path, kind, shape, values):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values)


def write_data(folder, bad_step=None):
    """Samples in order; those of a step, four, are no numbers."""
    numbers = [float("nan") if bad_step and i // (4 * FEATURES) == bad_step - 1 else (i * 7 % 11) / 11
               for i in range(SAMPLES * FEATURES)]
    write_array(folder / "x.npy", "<f4", (SAMPLES, FEATURES), struct.pack(f"<{len(numbers)}f", *numbers))
    write_array(folder / "y.npy", "<i8", f"({SAMPLES},)", struct.pack(f"<{SAMPLES}q", *(i % 3 for i in range(SAMPLES))))


def tell(scratch, library, *words):
    done = subprocess.run([scratch.binary, *words], cwd=scratch.path, text=True, capture_output=True, check=False,
                          env=dict(runs.ENVIRONMENT, ACCEL_HOST_DEVICE=os.path.abspath(library)))
    return done.returncode, done.stdout + done.stderr


def on_cpu(name):
    """The place with the bits of another."""
    return "fsdp_cpu" if name.startswith("fsdp") else "cpu"


def steps_of(scratch, name):
    lines = (scratch.path / "runs" / name / "metrics.jsonl").read_text().splitlines()
    return [line for line in lines if "loss_bits" in line]


def check_bits(scratch, report, library):
    write_data(scratch.path)
    for name, words in PLACES.items():
        code, out = tell(scratch, library, "job.yaml", f"name={name}", *words)
        report.check(f"{name}: a run trains", code == 0, out)
        code, out = tell(scratch, library, "diff", f"runs/{on_cpu(name)}", f"runs/{name}")
        report.check(f"{name}: with the bits of the CPU", "bit-identical: every step" in out, out)


def check_optimizers(scratch, report, library):
    for bad_step in (None, 9):
        write_data(scratch.path, bad_step)
        for number, optimizer in enumerate(OPTIMIZERS):
            name, words = f"{'bad' if bad_step else 'good'}_{number}", (f"optimizer={optimizer}",)
            code, out = tell(scratch, library, "job.yaml", f"name={name}_cpu", *words)
            report.check(f"{optimizer}: a run on the CPU", code == (9 if bad_step else 0), out)
            graph_code, out = tell(scratch, library, "job.yaml", f"name={name}_graph", *words, *PLACES["graph"])
            report.check(f"{optimizer}: a run with a graph ends alike", graph_code == code, out)
            code, out = tell(scratch, library, "diff", f"runs/{name}_cpu", f"runs/{name}_graph")
            report.check(f"{optimizer}: with the bits of the CPU", "bit-identical: every step" in out, out)


def check_auto(scratch, report, library):
    """The allocator of this device does not know how much memory is free."""
    code, out = tell(scratch, library, "job.yaml", "name=auto", DEVICE, "accelerator.cuda_graph=auto")
    report.check("auto: a run says that it records no passes", code == 0 and "accelerator.cuda_graph: passes are launched one "
                 "by one: the device's allocator does not count its memory\n" in out, out)


def check_divergence(scratch, report, library):
    write_data(scratch.path, bad_step=9)
    for name, words in PLACES.items():
        code, out = tell(scratch, library, "job.yaml", f"name=bad_{name}", *words)
        report.check(f"{name}: a loss that is not finite ends the run",
                     code == 9 and "step 9: the loss is nan; the weights are those of the step before" in out, out)
        report.check(f"{name}: the record ends with the step before", len(steps_of(scratch, f"bad_{name}")) == 8 and
                     steps_of(scratch, f"bad_{name}") == steps_of(scratch, f"bad_{on_cpu(name)}"))


def main():
    report = runs.Report()
    with runs.Scratch(sys.argv[1], JOB) as scratch:
        check_bits(scratch, report, sys.argv[2])
        check_auto(scratch, report, sys.argv[2])
        check_divergence(scratch, report, sys.argv[2])
        check_optimizers(scratch, report, sys.argv[2])
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
