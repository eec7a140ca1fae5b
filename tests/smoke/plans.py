#!/usr/bin/env python3
"""`plan` and `estimate-memory`: output and exit codes.   plans.py BINARY"""

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import runs

ESTIMATE = """\
memory for 'model': 768 numbers, the largest layer is 'h.0'
dtype      largest layer    total size  training using Adam
float32          2.00 KB       3.00 KB             12.00 KB
float16          1.00 KB       1.50 KB              6.00 KB
int8        512.00 bytes  768.00 bytes                  N/A
int4        256.00 bytes  384.00 bytes                  N/A
"""
PLAN_HINT = ("  hint: 'accel-run plan RECIPE' lists the memory of a rank by purpose, and changes that make it fit\n")


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


def numbers(scratch, name):
    """The record's lines of steps, its plan and what it took, the last."""
    lines = [json.loads(line) for line in (scratch.path / "runs" / name / "metrics.jsonl").open()]
    last = {kind: line[kind] for line in lines for kind in ("plan", "actual") if kind in line}
    return [line for line in lines if "loss_bits" in line], last.get("plan"), last.get("actual")


def check_planned_run(scratch):
    """A planned run prints both, with the same numbers, and a resume estimates its pace."""
    for name, *words in (("plain", "log.plan=false"), ("planned",)):
        code, out, errors = tell(scratch, "job.yaml", f"name={name}", "train.until=6 steps", *words)
        check(code == 0, errors)
    said = re.findall(r"^planned and actual: 19090 parameters, as planned; memory [0-9.]+ MiB, planned "
                      r"[0-9.]+ MiB \(x [0-9.]+\); a step [0-9.e-]+ s, [0-9.e-]+ GFLOP/s$", out, re.MULTILINE)
    check(len(said) == 2, f"once after the first step and once at the end, not {out}")
    plain, planned = numbers(scratch, "plain"), numbers(scratch, "planned")
    check(plain[0] == planned[0], "planning changes the numbers")
    check(plain[2] is None and "memory_mib" not in plain[1], plain)
    check(planned[1]["parameters"] == planned[2]["parameters"] == 19090, planned[1:])
    check(planned[2]["steps"] == 6 and planned[2]["memory_mib"] > 0, planned[2])
    code, out, errors = tell(scratch, "resume", "runs/planned", "train.until=9 steps")
    check(code == 0 and re.search(r"; a step [0-9.e-]+ s, planned [0-9.e-]+ s \(x ", out), f"{out} {errors}")
    check("step_seconds" in numbers(scratch, "planned")[1], "a resume foretells its pace")
    code, out, errors = tell(scratch, "report", "runs/planned")
    check(code == 0 and re.search(r"^parameters +19,090 +19,090 +1$", out, re.MULTILINE), f"{out} {errors}")
    check("<h2>Planned and actual</h2>" in (scratch.path / "runs/planned/report.html").read_text(), "report")
    check("planned" not in tell(scratch, "report", "runs/plain")[1], "a plan that was not made")


def check_too_large(scratch):
    """More than a process may have: a warning of `validate`, and a refusal before the run folder exists."""
    memory = 3 << 30
    # Weights and state of the optimizer are 0.9 of the memory, the gradients 0.3 of it.
    side = int((0.3 * memory / 4) ** 0.5)
    words = ("job.yaml", "name=large", f"model.hidden_sizes=[{side}, {side}]")
    limit = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, limit[1]))
    size = r"[0-9.]+ [KMGT]iB"
    sizes = rf"{size} \(weights {size}, gradients {size}, optimizer state {size}\), and {size} are available"
    code, out, errors = tell(scratch, "validate", *words)
    check(code == 0 and out == "job.yaml: valid\n", f"{code} {out} {errors}")
    check(re.match(r"argument \d: warning: the model 'mlp' does not fit into this machine's memory: training needs at "
                   rf"least {sizes}\n", errors) and PLAN_HINT in errors, errors)
    for ranks in (1, 2):
        code, out, errors = tell(scratch, *words, f"accelerator.num_processes={ranks}", "log.plan=false")
        check(code == 8 and "the model 'mlp' does not fit into memory: " in errors and
              errors.count("error: ") == 1 and "  hint: " in errors, f"{code} {out} {errors}")
        check(not (scratch.path / "runs/large").exists(), "a refused run left its folder")
    code, out, errors = tell(scratch, "job.yaml", "name=large", "model.hidden_sizes=[16000, 16000, 16000, 16000]")
    check(code == 8 and "the model 'mlp' does not fit into memory: its tensors exceed the address space of a process"
          in errors and "  hint: raise the limits of 'ulimit -v' and 'ulimit -d'" in errors, f"{code} {out} {errors}")
    resource.setrlimit(resource.RLIMIT_DATA, limit)
    code, out, errors = tell(scratch, "validate", "job.yaml")
    check((code, out, errors) == (0, "job.yaml: valid\n", ""), f"{code} {out} {errors}")


def check_patterns(scratch):
    """`validate` finds names that match no parameter, without opening the data."""
    code, out, errors = tell(scratch, "validate", "job.yaml", "train.freeze=['*.bias']")
    check((code, out, errors) == (0, "job.yaml: valid\n", ""), f"{code} {out} {errors}")
    for words in (["train.freeze=['*.bais']"], ["optimizer.groups=[{match: '*.bais', lr: 1}]"]):
        found = [tell(scratch, *verb, "job.yaml", *words) for verb in (["validate"], ["plan"], [])]
        check(all(code == 2 and "error: '*.bais' matches no parameter\n" in errors and "did you mean '*.bias'?" in errors
                  for code, _, errors in found), f"{words}: {found}")
    code, out, errors = tell(scratch, "validate", "job.yaml", "train.freeze=[x]", "task=question_answering")
    warning = "warning: 'train.freeze' is not checked: the model is not built without its data; 'accel-run plan job.yaml' does it\n"
    check((code, out, errors) == (0, "job.yaml: valid\n", warning), f"{code} {out} {errors}")


def check_hardware(scratch):
    """'--hardware' and overrides in one command, in either order."""
    h100 = ("--hardware", "h100", "memory=94e9")
    for words in ((*h100, "train.batch=32", "--ranks", "2"), ("train.batch=32", *h100, "--ranks", "2")):
        code, out, errors = tell(scratch, "plan", "job.yaml", *words)
        check(code == 0 and "the fastest: accel-run job.yaml 'train.batch=32' '" in out and not errors, f"{code} {out} {errors}")
    code, out, errors = tell(scratch, "plan", "job.yaml", *h100, "accelerator.parallelism.pp=2")
    check((code, out, errors) == (2, "", "error: 'accelerator.parallelism.pp=2' has no effect: '--hardware' plans every mesh\n"
                                         "  hint: leave it out, or plan that mesh on this machine, without '--hardware'\n"),
          f"{code} {out} {errors}")
    code, out, errors = tell(scratch, "plan", "job.yaml", "--hardware", "train.batch=32")
    check(code == 2 and "error: '--hardware' has 'train.batch=32', which is not known" in errors, errors)


def check_placement(scratch):
    """Where weights would be for inference."""
    recipe = Path(__file__).resolve().parents[2] / "recipes/tiny/llama.yaml"
    code, out, errors = tell(scratch, "plan", recipe, "--max-memory", "cpu=1GiB")
    check(code == 0 and out == "device map (auto):\n  cpu  the model  98.2 KiB\nall weights are on the CPU: nothing is streamed\n",
          f"{code} {out} {errors}")
    (scratch.path / "all.json").write_text('{"": "disk"}')
    code, out, errors = tell(scratch, "plan", recipe, "--device-map", "all.json", "--max-memory", "cpu=60KiB")
    check(code == 0 and out.startswith("device map (all.json):\n  disk  the model  98.2 KiB\nstreamed: ") and
          out.endswith(" per token, at most 60.0 KiB of them in memory\npredicted: no seconds per token, the recipe has no 'weights' "
                       "to measure the disk with\n"), f"{code} {out} {errors}")
    code, out, errors = tell(scratch, "plan", recipe, "--max-memory", "cpu=1KiB")
    check(code == 2 and "leaves 1.00 KiB for streamed weights, and a block or the head has 48.2 KiB" in errors, errors)
    check(tell(scratch, "plan", recipe, "--max-memory", "cpu=1GiB", "--ranks", "2")[0] == 2, "ranks of a placement")


def main():
    with runs.Scratch(sys.argv[1]) as scratch:
        code, out, errors = tell(scratch, "plan", "job.yaml", "--ranks", "1,2,4")
        check(code == 0 and out.splitlines()[-1] == "fits", f"a small job: {code} {out} {errors}")
        check("  model      mlp, 19,090 parameters\n" in out, out)
        check(re.search(r"^batch = .*16 = 16 x 1 x 1 +16 = 8 x 1 x 2 +16 = 4 x 1 x 4$", out, re.MULTILINE), out)
        check(re.search(r"^  weights +74.6 KiB +74.6 KiB +74.6 KiB$", out, re.MULTILINE), out)
        check(not (scratch.path / "runs").exists(), "a plan left a run folder")
        code, out, errors = tell(scratch, "plan", "job.yaml", "--ranks", "1,two")
        check(code == 2 and "error: '--ranks' has 'two', which is not a number of ranks" in errors, errors)
        code, out, errors = tell(scratch, "plan", "job.yaml", "--ranks", "3")
        check(code == 2 and "batch 16 cannot be shared by 3 ranks" in errors, errors)
        check_hardware(scratch)
        check_placement(scratch)
        check_patterns(scratch)
        check_too_large(scratch)
        check_planned_run(scratch)
        tiny = Path(__file__).resolve().parents[2] / "recipes/tiny"
        code, out, errors = tell(scratch, "plan", tiny / "reviews_masked.yaml")
        check(code == 0 and "  model      roberta, " in out, f"hidden tokens: {code} {out} {errors}")
        code, out, errors = tell(scratch, "plan", tiny / "reviews_packed.yaml")
        check(code == 0 and re.search(r"': 200 texts packed into \d+ samples of up to 64 tokens, \d+ % full\n", out), f"{code} {out} {errors}")
        code, out, errors = tell(scratch, "plan", tiny / "numbers_packed.yaml")
        check(code == 0, f"eval data that is not packed: {errors}")
        write_model(scratch.path / "model")
        code, out, errors = tell(scratch, "estimate-memory", "model")
        check(code == 0 and out == ESTIMATE, f"{code} {out} {errors}")
        code, out, errors = tell(scratch, "estimate-memory", "nothing")
        check(code == 3 and "'nothing' has no weights" in errors, f"{code} {errors}")


if __name__ == "__main__":
    main()
