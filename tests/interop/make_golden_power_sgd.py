"""Writes golden/power_sgd.json: what PyTorch's powerSGD_hook makes of the gradients of two processes.

    python tests/interop/make_golden_power_sgd.py [--check]

Gradients are sines, so that a test makes the same ones. With --check nothing is written; the result is
compared with what is in golden/ instead.
"""

import json
import math
import sys
import tempfile
from pathlib import Path

import numpy
import torch
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power

import ranks

PATH = Path(__file__).parent / "golden" / "power_sgd.json"
SHAPES = [[6, 5], [12, 20], [7], [40, 8], [4, 3, 2], [12, 20]]  # the hook takes equal shapes together
# The gradients are of rank 2: at rank 1 the result depends on the first Q.
RANK, START, STEPS = 1, 2, 6


def gradient(rank, step, index, size):
    values = [math.sin(0.37 * (k + 1) * (index + 1) + step + 2 * rank) for k in range(size)]
    return torch.tensor(values, dtype=torch.float64).float()


class Bucket:
    """What the hook asks of a torch.distributed.GradBucket: of all gradients, the last first as DDP has them."""

    def __init__(self, rank, step):
        sizes = [(i, math.prod(SHAPES[i])) for i in reversed(range(len(SHAPES)))]
        self.flat = torch.cat([gradient(rank, step, i, size) for i, size in sizes])
        self.parts = [part.view(SHAPES[i])
                      for (i, _), part in zip(sizes, self.flat.split([size for _, size in sizes]))]

    def buffer(self):
        return self.flat

    def gradients(self):
        return self.parts

    def index(self):
        return 0

    def is_last(self):
        return True


def rank_main(path):
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    state = power.PowerSGDState(None, matrix_approximation_rank=RANK, start_powerSGD_iter=START)
    steps = []
    for step in range(1, STEPS + 1):
        bucket = Bucket(rank, step)
        power.powerSGD_hook(state, bucket).wait()
        steps.append([[round(v, 7) for v in part.flatten().tolist()] for part in reversed(bucket.parts)])
    if rank == 0:
        seeds = [int(seed) for seed in numpy.random.RandomState(0).randint(1_000_000_000, size=8)]
        path.write_text(json.dumps({"rank": RANK, "start": START, "seeds": seeds, "shapes": SHAPES, "steps": steps}) + "\n")
    ranks.leave()


def main():
    if sys.argv[1:2] == ["--rank"]:
        return rank_main(Path(sys.argv[2]))
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "power_sgd.json"
        ranks.launch(__file__, "--rank", made)
        text = made.read_text()
    if "--check" in sys.argv:
        return 0 if PATH.read_text() == text else "golden/power_sgd.json is not what PyTorch gives now"
    PATH.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
