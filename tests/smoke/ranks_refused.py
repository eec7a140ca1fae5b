#!/usr/bin/env python3
"""What ranks cannot do is reported before anything is written, in the same words every time.

    ranks_refused.py ACCEL_RUN
"""

import sys
import time

import rank_runs

CANONICAL = "accelerator.reduction=canonical"
TWO_MACHINES = ["accelerator.num_machines=2", "accelerator.main_process_ip=127.0.0.1",
                "accelerator.main_process_port=29500"]
OF_ONE_OF_TWO = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2",
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}


def at_argument(number, word, key, message, hint=""):
    """An error with the place of argument `number`; key is where the caret stands."""
    return (f"argument {number}: error: {message}\n    {word}\n    {' ' * word.index(key)}^\n"
            + (f"  hint: {hint}\n" if hint else ""))


# What is wrong: (words after the recipe, exit code, all of standard error). The recipe is argument 1.
WORDS = {
    "a batch that ranks cannot share": (
        [rank_runs.on(2), "train.batch=12"], 2,
        at_argument(3, "train.batch=12", "12", "batch 12 cannot be shared by 2 ranks of micro_batch 4",
                    "'batch' counts the samples of all ranks: make it a multiple")),
    "a batch that ranks cannot share, without micro_batch": (
        [rank_runs.on(2), "train.micro_batch=auto", "train.batch=15"], 2,
        at_argument(4, "train.batch=15", "15", "batch 15 cannot be shared by 2 ranks",
                    "'batch' counts the samples of all ranks: make it a multiple")),
    "canonical with 3 ranks": (
        [rank_runs.on(3), "train.batch=12", CANONICAL], 2,
        at_argument(4, CANONICAL, "canonical", "'reduction' canonical needs 1, 2, 4, 8, ... ranks, not 3",
                    "use another number of processes, or bucketed")),
    "canonical without micro_batch": (
        [rank_runs.on(2), "train.micro_batch=auto", CANONICAL], 2,
        at_argument(4, CANONICAL, "canonical", "'reduction' canonical needs 'train.micro_batch'",
                    "sums are independent of the number of ranks only with fixed micro-batches")),
    "canonical with a hook that rounds": (
        [rank_runs.on(2), CANONICAL, "accelerator.ddp.comm_hook=bf16"], 2,
        at_argument(3, CANONICAL, "canonical", "'reduction' canonical does not support 'ddp.comm_hook'",
                    "leave one of the two out")),
    "canonical with running statistics": (
        [rank_runs.on(2), CANONICAL, "model!={type: resnet}"], 2,
        at_argument(3, CANONICAL, "canonical", "'reduction' canonical does not support the running statistics"
                    " 'bn1.running_mean', which depend on the number of ranks",
                    "use a model without batch norm, or bucketed")),
    "no processes": (
        [rank_runs.on(0)], 2,
        at_argument(2, rank_runs.on(0), "0", "'num_processes' must be between 1 and 65536, not 0")),
    "several processes that share nothing": (
        [rank_runs.on(2), "accelerator.distributed_type=no"], 2,
        at_argument(3, "accelerator.distributed_type=no", "no", "'distributed_type' is no, but there are 2 processes",
                    "leave it at auto, or set 'num_processes' to 1")),
    "a machine too many": (
        [*TWO_MACHINES, "accelerator.machine_rank=2"], 2,
        at_argument(5, "accelerator.machine_rank=2", "2", "'machine_rank' is 2, but there are 2 machines",
                    "machine ranks start at 0")),
    "processes that machines cannot share": (
        [*TWO_MACHINES, rank_runs.on(3)], 2,
        at_argument(5, rank_runs.on(3), "3", "3 processes cannot be divided evenly among 2 machines",
                    "'num_processes' is the total over all machines")),
    "machines that cannot meet": (
        ["accelerator.num_machines=2"], 2,
        at_argument(2, "accelerator.num_machines=2", "2", "'main_process_ip' is missing",
                    "give the address of machine 0, the same on all machines")
        + at_argument(2, "accelerator.num_machines=2", "2", "'main_process_port' is missing",
                      "give a free port of machine 0, the same on all machines, such as 29500")),
    "an address that nobody uses": (
        ["accelerator.main_process_ip=10.0.0.1"], 2,
        at_argument(2, "accelerator.main_process_ip=10.0.0.1", "10", "'main_process_ip' has no effect on one machine",
                    "leave it out, or set 'num_machines'")),
    "less data than one batch": (
        [rank_runs.on(2), "data.train.length=8", "data.loader.drop_last=true"], 2,
        at_argument(4, "data.loader.drop_last=true", "true",
                    "'drop_last' leaves no batch: the training data has 8"
                    " samples for batches of 16", "lower 'train.batch', or leave 'drop_last' out")),
}

# What is wrong with a launcher's variables: (the variables, words, exit code, all of standard error).
VARIABLES = {
    "another number of ranks than the launcher's": (
        OF_ONE_OF_TWO, [rank_runs.on(4)], 2,
        at_argument(2, rank_runs.on(4), "4", "'num_processes' is 4, but the launcher started 2 processes",
                    "leave 'num_processes' at auto under another launcher")),
    "one process where the recipe wants two": (
        {**OF_ONE_OF_TWO, "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}, [rank_runs.on(2)], 2,
        at_argument(2, rank_runs.on(2), "2", "'num_processes' is 2, but the launcher started 1 processes",
                    "leave 'num_processes' at auto under another launcher")),
    "ranks that share nothing": (
        OF_ONE_OF_TWO, [rank_runs.on("auto"), "accelerator.distributed_type=no"], 2,
        at_argument(3, "accelerator.distributed_type=no", "no",
                    "'distributed_type' is no, but the launcher started 2 processes", "leave it at auto")),
    "a rank without a world": (
        {"RANK": "0"}, [], 2,
        "error: environment variable 'RANK' is set, but not 'WORLD_SIZE'\n"
        "  hint: set both, as torchrun does, or unset 'RANK'\n"),
    "a rank outside its world": (
        {**OF_ONE_OF_TWO, "RANK": "2"}, [], 2,
        "error: environment variable 'RANK' is 2, but 'WORLD_SIZE' is 2\n  hint: ranks are counted from 0\n"),
    "a world that is no number": (
        {**OF_ONE_OF_TWO, "WORLD_SIZE": "two"}, [], 2,
        "error: environment variable 'WORLD_SIZE' is 'two', not a whole number from 1 to 16777216\n"
        "  hint: it must have the value that torchrun sets\n"),
    "a port that is none": (
        {**OF_ONE_OF_TWO, "MASTER_PORT": "0"}, [], 2,
        "error: environment variable 'MASTER_PORT' is '0', not a whole number from 1 to 65535\n"
        "  hint: it must have the value that torchrun sets\n"),
    "Open MPI's rank alone": (
        {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, [], 2,
        "error: environment variable 'OMPI_COMM_WORLD_RANK' is set, but not 'OMPI_COMM_WORLD_LOCAL_RANK'\n"
        "  hint: set both, as mpirun does, or unset 'OMPI_COMM_WORLD_RANK'\n"),
}

# What ranks say themselves, once the data and the model are there: (words, exit code, all of standard error).
JSON = ["--error-format", "json"]
OF_RANKS = {
    "statistics of a model that has none": (
        [rank_runs.on(2), "accelerator.sync_batch_norm=true"], 2,
        at_argument(3, "accelerator.sync_batch_norm=true", "true",
                    "'sync_batch_norm' has no effect: the model has no batch norm", "leave it out")),
    "statistics of ranks without samples": (
        [rank_runs.on(2), "accelerator.sync_batch_norm=true", "model!={type: resnet, embedding_size: 4}", "data.train.length=17"], 2,
        at_argument(3, "accelerator.sync_batch_norm=true", "true",
                    "'sync_batch_norm' needs samples on all 2 ranks, but the last batch of an epoch of 17 samples has"
                    " fewer", "set 'data.loader.even_batches' or 'drop_last'")),
    "averages of averages that differ": (
        [rank_runs.on(2), "accelerator.local_sgd={every: 8 steps}", "callbacks=[ema]"], 2,
        at_argument(3, "accelerator.local_sgd={every: 8 steps}", "{",
                    "the callback 'ema' cannot average between the synchronizations of 'local_sgd': weights differ by"
                    " rank", "set 'every' of 'ema' to 8 steps or a multiple of it")),
    "less data than one batch, for programs": (
        [*JSON, rank_runs.on(2), "data.train.length=8", "data.loader.drop_last=true"], 2,
        '{"severity": "error", "argument": 6, "line": 1, "column": 23, "message": "\'drop_last\' leaves no batch: the'
        ' training data has 8 samples for batches of 16", "hint": "lower \'train.batch\', or leave \'drop_last\' out"}\n'),
}


def expect(scratch, report, name, words, variables, code, text):
    start = time.monotonic()
    process = scratch.start("job.yaml", *words, **variables)
    _, errors = process.communicate()
    took = time.monotonic() - start
    report.check(name, (process.returncode, errors) == (code, text),
                 f"exit {process.returncode}, wanted {code}\n{errors}wanted:\n{text}")
    report.check(f"{name}: at once", took < rank_runs.within(10), f"{took:.0f} s")
    report.check(f"{name}: nothing is written", not (scratch.path / "runs").exists() and not scratch.processes())


def main():
    report = rank_runs.runs.Report()
    with rank_runs.Scratch(sys.argv[1]) as scratch:
        for name, (words, code, text) in WORDS.items():
            expect(scratch, report, name, words, {}, code, text)
        for name, (words, code, text) in OF_RANKS.items():
            expect(scratch, report, name, words, {}, code, text)
        for name, (variables, words, code, text) in VARIABLES.items():
            expect(scratch, report, name, words, variables, code, text)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
