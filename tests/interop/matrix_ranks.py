"""The part of check_matrix.py that runs in two processes over gloo.

    torchrun --nproc_per_node 2 matrix_ranks.py {save,load} FOLDER

save: each of JOBS is trained, saved in FOLDER/<number> and trained on. load: each folder
FOLDER/<number>-<whatever> is gone on from. The losses, means over both ranks, go to a file beside it.
"""

import json
import math
import random
import sys
from pathlib import Path

import torch

import ranks
from matrix_jobs import ADAMW, COSINE, MOMENTUM
from matrix_sides import SAVED, SEED, TOTAL, Job, Script

# Means over two ranks are rounded otherwise, and so are sums that one process adds in another order.
HALVES = 1e-6
# Accelerate steps a schedule once per process, so scripts size theirs for that.
STEPS = 2 * TOTAL
JOBS = [
    Job("2 processes", optimizer=ADAMW, tolerance=HALVES, schedule=(
        "{type: cosine}", lambda o: torch.optim.lr_scheduler.LambdaLR(
            o, lambda step: 0.5 * (1 + math.cos(math.pi * step / STEPS))))),
    Job("2 processes, .bin", optimizer=ADAMW, binary=True, tolerance=HALVES, schedule=(
        "{type: cosine}", lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, STEPS))),
    Job("2 processes, no count", optimizer=MOMENTUM, tolerance=HALVES, schedule=(
        "{type: step, every: 7 steps}", lambda o: torch.optim.lr_scheduler.StepLR(o, 14))),
    Job("2 processes, split batches", model="gpt", optimizer=ADAMW, split=True, tolerance=HALVES, schedule=COSINE),
    Job("2 processes, dropout", model="mlp-dropout", optimizer=ADAMW, tolerance=HALVES),
    Job("2 processes, dropout, split batches", model="gpt-dropout", optimizer=ADAMW, split=True, accumulation=2,
        tolerance=HALVES, schedule=COSINE),
]


def draws(job):
    """Whether ranks draw random numbers in training, and so depend on how many they are."""
    return "dropout" in job.model_text


def loadable(job):
    """Whether Accelerate's schedule, stepped once per process, is at the same place as ours."""
    return job.split or not job.make_schedule


def launch(mode, folder):
    """Runs this script in two processes. Returns the losses by folder name."""
    ranks.launch(__file__, mode, folder)
    return {path.stem: json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))}


def drawn(state):
    """The numbers that come next."""
    generator = torch.Generator()
    generator.set_state(state)
    return torch.rand(4, generator=generator)


def check_generators(folder):
    """What load_state() set in this process is what its file holds, and not what another's does."""
    rank = torch.distributed.get_rank()
    states = [torch.load(folder / f"random_states_{r}.pkl", weights_only=False) for r in range(2)]
    firsts = [drawn(state["torch_manual_seed"]) for state in states]
    assert not torch.equal(*firsts), "both ranks draw the same"
    assert torch.equal(drawn(torch.get_rng_state()), firsts[rank]), f"PyTorch's generator of rank {rank}"
    assert random.getstate() == states[rank]["random_state"], f"Python's generator of rank {rank}"


def main():
    mode, folder = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(1)
    names = [str(number) for number in range(len(JOBS))] if mode == "save" else sorted(
        path.name for path in folder.iterdir())
    for name in names:
        job = JOBS[int(name.split("-")[0])]
        script = Script(job)
        if mode == "save":
            torch.manual_seed(SEED + script.accelerator.process_index)
            script.train(SAVED)
            script.save(folder / name)
        else:
            script.load(folder / name, SAVED)
            if (folder / name / "random_states_1.pkl").exists():
                check_generators(folder / name)
        losses = script.train(TOTAL)
        if script.accelerator.is_main_process:
            (folder / f"{name}.json").write_text(json.dumps(losses))
    ranks.leave()


if __name__ == "__main__":
    main()
