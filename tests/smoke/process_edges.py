#!/usr/bin/env python3
"""Limits of the process: file size, closed descriptors, full output, memory, a removed folder.

    process_edges.py ACCEL_RUN
"""

import os
import resource
import signal
import subprocess
import sys

import runs

MIB = 1 << 20


def call(scratch, *words, before=None, folder=None, **streams):
    """(exit code, standard output, standard error)."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    process = subprocess.run([scratch.binary, *words], cwd=folder or scratch.path, text=True, env=runs.ENVIRONMENT,
                             stdin=subprocess.DEVNULL, preexec_fn=before, check=False, **streams)
    return process.returncode, process.stdout, process.stderr


def limit(kind, amount):
    # Python ignores SIGXFSZ, and an ignored signal stays so in the child.
    return lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_DFL), resource.setrlimit(kind, (amount, amount)))


def check_file_size(scratch, report):
    code, _, errors = call(scratch, "job.yaml", "name=long", "model.hidden_sizes=[512]",
                           before=limit(resource.RLIMIT_FSIZE, 256 << 10))
    report.check("a file beyond the limit is an I/O error", code == 7 and "/model.safetensors': File too large; " in errors,
                 f"{code} {errors}")
    code, _, errors = call(scratch, "report", "runs/long", "--output", "report.html",
                           before=limit(resource.RLIMIT_FSIZE, 4 << 10))
    report.check("of a verb too", code == 7 and errors ==
                 "error: cannot write 'report.html': File too large\n"
                 "  hint: raise the limit on the size of a file: ulimit -f\n", f"{code} {errors}")
    with open(scratch.path / "shown", "w", encoding="utf-8") as shown:
        code, _, errors = call(scratch, "show", "job.yaml", stdout=shown, before=limit(resource.RLIMIT_FSIZE, 512))
    report.check("also of the standard output", code == 7 and errors ==
                 "error: cannot write the standard output: File too large\n"
                 "  hint: raise the limit on the size of a file: ulimit -f\n", f"{code} {errors}")


def close_all():
    for descriptor in (0, 1, 2):
        os.close(descriptor)


def check_closed_descriptors(scratch, report):
    for name, words in {"alone": [], "ranked": ["accelerator.num_processes=2"]}.items():
        code, _, _ = call(scratch, "job.yaml", f"name={name}", "train.until=8 steps", "trackers=[csv]", *words,
                          before=close_all, stdout=None, stderr=None)
        run = scratch.path / "runs" / name
        table = (run / "metrics.csv").read_text() if code == 0 else ""
        record = (run / "metrics.jsonl").read_text() if code == 0 else ""
        report.check(f"closed descriptors: no line of the console is in a file of the run '{name}'",
                     table.startswith("step,") and all(line[:1] == "{" for line in record.splitlines()), f"{code} {table} {record}")
        # A descriptor is open if its number is not the first file's.
        code, _, _ = call(scratch, "validate", "job.yaml", before=close_all, stdout=None, stderr=None)
        report.check("and verbs end as usual", code == 0, str(code))


def check_full_output(scratch, report):
    run = "runs/alone"
    verbs = [["--help"], ["--version"], ["list"], ["list", "model"], ["show", "job.yaml"], ["validate", "job.yaml"], ["schema"],
             ["plan", "job.yaml"], ["explain", "model", "mlp"], ["why", "train.batch", "job.yaml"], ["env"],
             ["completion", "bash"], ["checkpoint", "list", run], ["evaluate", run], ["diff", run, run], ["report", run],
             ["top", "--once", run], ["job.yaml", "name=full", "train.until=8 steps"]]
    for verb in verbs:
        code, shown, errors = call(scratch, *verb)
        if code != 0 or not shown:
            report.check(f"{' '.join(verb)}: prints something", False, f"{code} {errors}")
            continue
        with open("/dev/full", "w", encoding="utf-8") as full:
            code, _, errors = call(scratch, *verb, stdout=full)
        report.check(f"{' '.join(verb)}: a full disk is an error", code == 7 and errors.endswith(
            "error: cannot write the standard output: No space left on device\n  hint: free some space on that disk\n"),
            f"{code} {errors}")
    with open("/dev/full", "w", encoding="utf-8") as full:
        code, _, errors = call(scratch, "--error-format", "json", "list", stdout=full)
    report.check("also as JSON", code == 7 and errors.startswith('{"severity": "error", "message": "cannot write'), errors)
    for before in (None, lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN)):
        read_end, write_end = os.pipe()
        os.close(read_end)
        code, _, errors = call(scratch, "explain", "model", "gpt", stdout=write_end, before=before)
        os.close(write_end)
        report.check("a closed pipe is not", not errors and code in (0, -signal.SIGPIPE), f"{code} {errors}")


def check_threads(scratch, report):
    """OMP_NUM_THREADS counts over the default and under the recipe. torchrun sets it to 1 where it is not set."""
    unset = "accelerator.num_cpu_threads_per_process=auto"
    start = ["job.yaml", "train.until=1 steps", "--fresh"]
    for words, openmp, wanted in (([unset], "1", ", 1 thread (OMP_NUM_THREADS), "), ([unset], "3", ", 3 threads (OMP_NUM_THREADS), "),
                                  (["accelerator.num_cpu_threads_per_process=2"], "1", ", 2 threads, ")):
        runs.ENVIRONMENT["OMP_NUM_THREADS"] = openmp
        code, shown, errors = call(scratch, *start, *words)
        report.check(f"OMP_NUM_THREADS={openmp} {words[0]}", code == 0 and wanted in shown, f"{code} {shown} {errors}")
    runs.ENVIRONMENT["OMP_NUM_THREADS"] = "1"


def check_memory(scratch, report):
    """Limits of the address space from too small for libtorch up to enough."""
    codes = {}
    for mebibytes in range(96, 512, 48):
        code, _, errors = call(scratch, "job.yaml", "name=small", "train.until=1 steps", "checkpoint.every=never", "--fresh",
                               before=limit(resource.RLIMIT_AS, mebibytes * MIB))
        codes[code] = errors
        told = errors.removeprefix("warning: cannot write the report: out of memory\n")
        if code not in (0, 8) or (code == 8 and (not told.startswith("error: ") or "\n  hint: " not in told)):
            report.check(f"{mebibytes} MiB of addresses", False, f"{code} {errors}")
    report.check("too little memory to start is an error with a hint", 8 in codes, str(codes))
    for verb in (["validate"], ["plan"], []):
        code, _, errors = call(scratch, *verb, "job.yaml", "name=huge", "model.hidden_sizes=[1000000000000]")
        report.check(f"an absurd size is refused: {verb}", code == 8 and "the model 'mlp' does not fit into memory: " in errors
                     and "lower 'model.hidden_sizes', the largest number of 'model'" in errors, f"{code} {errors}")
    code, _, errors = call(scratch, "plan", "job.yaml", before=limit(resource.RLIMIT_AS, 128 * MIB))
    report.check("libtorch does not fit", code == 8 and errors.startswith(
        f"error: libtorch does not fit into the {128 * MIB} bytes of address space: ") and
        errors.endswith("\n  hint: raise 'ulimit -v', or set it to unlimited\n"), f"{code} {errors}")


def check_removed_folder(scratch, report):
    for verb in (["list"], ["validate", "../job.yaml"], ["plan", "../job.yaml"], [scratch.path / "job.yaml"], ["report", "runs/x"],
                 ["resume", "runs/x"], ["checkpoint", "list", "x"], ["diff", "a", "b"], ["new", "x.yaml"], ["reference", "x"],
                 [scratch.path / "job.yaml", "accelerator.num_processes=2"], ["test"], ["lsp"], ["evaluate", "x"]):
        folder = scratch.path / "gone"
        folder.mkdir()
        code, _, errors = call(scratch, *verb, folder=folder, before=folder.rmdir)
        report.check(f"{verb[0]} in a removed folder", code == 7 and errors ==
                     "error: the working folder is unusable: No such file or directory\n"
                     "  hint: change to a folder that exists, such as: cd ~\n", f"{code} {errors}")


def main():
    report = runs.Report()
    with runs.Scratch(sys.argv[1]) as scratch:
        for check in (check_file_size, check_closed_descriptors, check_full_output, check_threads, check_memory,
                      check_removed_folder):
            check(scratch, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
