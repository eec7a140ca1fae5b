"""Sharded checkpoints of accel-run in PyTorch and Accelerate, and those of FSDP2 in accel-run.

    python tests/interop/check_shards.py ACCEL_RUN
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from safetensors.torch import load_file
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

from check_convert import convert, read_dcp, same

# Rows that the ranks divide unevenly, and ranks without rows.
RECIPE = """
name: job
model: {type: mlp, hidden_sizes: [35, 11, 5, 1, 3]}
data: {train: {type: synthetic/glyphs, length: 60}, loader: {workers: 0}}
optimizer: {type: adamw, lr: 0.01, weight_decay: 0.02}
train: {until: 3 steps, batch: 12, micro_batch: 1}
accelerator: {num_cpu_threads_per_process: 1, fsdp: {stage: 3}}
checkpoint: {resume: auto}
"""
CHECKPOINT = "runs/job/checkpoints/checkpoint_3"


class Mlp(torch.nn.Module):
    """The modules of accel-run's `mlp` with these weights' shapes."""

    def __init__(self, weights):
        super().__init__()
        shapes = [weights[f"layers.{i}.weight"].shape for i in range(len(weights) // 2)]
        self.layers = torch.nn.ModuleList(torch.nn.Linear(shape[1], shape[0]) for shape in shapes)

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


def moments_of(named):
    return {f"{name}.{slot}": tensor for name, slots in named["state"].items() for slot, tensor in slots.items()}


def in_fsdp2(rank, folder, weights, moments):
    """Loads a checkpoint of accel-run, compares, trains a step and saves what accel-run is to read."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29731", RANK=str(rank), WORLD_SIZE="2")
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Mlp(weights)
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5)
    model(torch.zeros(2, weights["layers.0.weight"].shape[1])).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    found, state = get_state_dict(model, optimizer)
    dcp.load({"model": found}, checkpoint_id=folder / CHECKPOINT / "pytorch_model_fsdp_0")
    dcp.load({"optimizer": state}, checkpoint_id=folder / CHECKPOINT / "optimizer_0")
    set_state_dict(model, optimizer, model_state_dict=found, optim_state_dict=state)
    whole = StateDictOptions(full_state_dict=True)
    found, state = get_state_dict(model, optimizer, options=whole)
    if rank == 0:
        same(found, weights)
        same(moments_of(state), moments)
        assert state["param_groups"][0]["lr"] != 0.5 and state["param_groups"][0]["weight_decay"] == 0.02
    model(torch.ones(2, weights["layers.0.weight"].shape[1])).sum().backward()
    optimizer.step()
    found, state = get_state_dict(model, optimizer)
    dcp.save({"model": found}, checkpoint_id=folder / "theirs" / "pytorch_model_fsdp_0")
    dcp.save({"optimizer": state}, checkpoint_id=folder / "theirs" / "optimizer_0")
    dist.barrier()
    os._exit(0)  # the threads of gloo may abort at exit


def check_merge(folder, weights):
    from accelerate.utils import merge_fsdp_weights
    merge_fsdp_weights(str(folder / CHECKPOINT / "pytorch_model_fsdp_0"), str(folder / "merged"))
    same(load_file(folder / "merged" / "model.safetensors"), weights)


def check_theirs(binary, folder):
    """What FSDP2 has saved, as accel-run reads it."""
    ours = convert(binary, folder, "theirs", "plain", "--to", "safetensors")
    same(load_file(ours / "model.safetensors"), read_dcp(folder / "theirs" / "pytorch_model_fsdp_0")["model"])
    back = convert(binary, folder, "theirs", "one", "--to", "dcp")
    same(moments_of(read_dcp(back / "optimizer_0")["optimizer"]),
         moments_of(read_dcp(folder / "theirs" / "optimizer_0")["optimizer"]))


def main():
    binary = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "job.yaml").write_text(RECIPE)
        subprocess.run([binary, "job.yaml", "accelerator.num_processes=3"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        assert (folder / CHECKPOINT / "pytorch_model_fsdp_0" / "__2_0.distcp").exists()
        weights = load_file(convert(binary, folder, CHECKPOINT, "full", "--to", "safetensors") / "model.safetensors")
        model = read_dcp(folder / CHECKPOINT / "pytorch_model_fsdp_0")["model"]
        same(model, weights)
        moments = moments_of(read_dcp(folder / CHECKPOINT / "optimizer_0")["optimizer"])
        assert set(moments) == {f"{name}.{slot}" for name in weights for slot in ("step", "exp_avg", "exp_avg_sq")}
        check_merge(folder, weights)
        mp.spawn(in_fsdp2, (folder, weights, moments), nprocs=2)
        check_theirs(binary, folder)
    print("sharded checkpoints are read both ways")


if __name__ == "__main__":
    main()
