"""Checkpoints that DeepSpeed writes now, at each stage of ZeRO on two and three ranks, in accel-run.

    python tests/interop/check_deepspeed.py ACCEL_RUN
"""

import sys
import tempfile
from pathlib import Path

from make_deepspeed_checkpoints import JOBS, save_all, table_of  # first: it configures DeepSpeed

import torch

from check_convert import convert, read_dcp, same


def converted(binary, folder, name):
    """Weights under all names, and moments by parameter."""
    weights = torch.load(convert(binary, folder, name, f"{name}-bin", "--to", "bin") / "pytorch_model.bin")
    shards = convert(binary, folder, name, f"{name}-dcp", "--to", "dcp")
    state = read_dcp(shards / "optimizer_0")["optimizer"]["state"]
    moments = {f"{parameter}.{slot}": tensor for parameter, slots in state.items() for slot, tensor in slots.items()}
    return ({f"model.{key}": tensor for key, tensor in weights.items()} |
            {f"optimizer.state.{key}": tensor for key, tensor in moments.items()})


def main():
    binary = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for job in JOBS:
            for world in (2, 3):
                name = f"{job}-{world}"
                save_all(job, folder / name, world)
                ours, theirs = converted(binary, folder, name), table_of(job, folder / name)
                if job == "zero1":  # whose frozen parameters DeepSpeed's converter leaves out
                    ours = {key: tensor for key, tensor in ours.items() if not key.startswith("model.frozen")}
                same(ours, theirs)
    print("checkpoints of DeepSpeed are read at every stage")


if __name__ == "__main__":
    main()
