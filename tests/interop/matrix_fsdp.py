"""Folders as Accelerate leaves them under FSDP, made of what it leaves without.

PyTorch's own writers make them: torch.save, and torch.distributed.checkpoint.save as one rank. What
several ranks write is among the golden files of the unit tests (make_fsdp_checkpoints.py).
"""

import shutil

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file


def named(optimizer, names):
    """A state dict with names in the place of running numbers, as FSDP gathers it."""
    groups = [dict(group, params=[names[i] for i in group["params"]]) for group in optimizer["param_groups"]]
    return {"state": {names[i]: slots for i, slots in optimizer["state"].items()}, "param_groups": groups}


def as_fsdp(folder, target, names, sharded):
    """FULL_STATE_DICT or SHARDED_STATE_DICT. `names` are the optimizer's parameters, in its order."""
    shutil.copytree(folder, target)
    model = load_file(target / "model.safetensors")
    optimizer = named(torch.load(target / "optimizer.bin"), names)
    (target / "model.safetensors").unlink()
    (target / "optimizer.bin").unlink()
    if sharded:
        dcp.save({"model": model}, checkpoint_id=str(target / "pytorch_model_fsdp_0"), no_dist=True)
        dcp.save({"optimizer": optimizer}, checkpoint_id=str(target / "optimizer_0"), no_dist=True)
    else:
        torch.save(model, target / "pytorch_model_fsdp.bin")
        torch.save(optimizer, target / "optimizer.bin")
