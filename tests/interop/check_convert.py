"""Converts checkpoints with accel-run and reads what comes of it with PyTorch and Accelerate.

    python tests/interop/check_convert.py ACCEL_RUN
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from accelerate import Accelerator, load_checkpoint_in_model
from accelerate.utils import merge_fsdp_weights
from safetensors.torch import load_file
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

from models import Gpt

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/unit/formats/golden"

RECIPE = """
name: job
model: {type: gpt, num_layers: 2, num_heads: 2, hidden_size: 16}
data: {train: {type: synthetic/addition, length: 64}}
optimizer: {type: adamw, lr: 0.01, groups: [{match: ["*.bias"], weight_decay: 0}]}
train: {until: 4 steps, batch: 8}
accelerator: {num_cpu_threads_per_process: 1}
"""


def convert(binary, folder, source, target, *words):
    subprocess.run([binary, "checkpoint", "convert", source, target, *words], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    return folder / target


def read_dcp(folder):
    state = {}
    _load_state_dict(state, storage_reader=dcp.FileSystemReader(str(folder)),
                     planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return state


def same(ours, theirs):
    assert ours.keys() == theirs.keys(), set(ours) ^ set(theirs)
    for name, tensor in theirs.items():
        assert torch.equal(ours[name], tensor) and ours[name].dtype == tensor.dtype, name


def same_optimizer(ours, theirs):
    """Of two state dicts with equal keys."""
    assert ours["state"].keys() == theirs["state"].keys()
    for parameter, slots in theirs["state"].items():
        same(ours["state"][parameter], slots)
    assert [sorted(group) for group in ours["param_groups"]] == [sorted(group) for group in theirs["param_groups"]]
    for mine, other in zip(ours["param_groups"], theirs["param_groups"]):
        assert all(mine[key] == value or list(mine[key]) == list(value) for key, value in other.items())


def check_ours(binary, folder):
    (folder / "job.yaml").write_text(RECIPE)
    subprocess.run([binary, "job.yaml"], cwd=folder, check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    source = "runs/job/checkpoints/checkpoint_4"
    weights = load_file(folder / source / "model.safetensors")
    optimizer = torch.load(folder / source / "optimizer.bin")

    shared = convert(binary, folder, source, "dcp", "--to", "dcp")
    same(read_dcp(shared / "pytorch_model_fsdp_0")["model"], weights)
    merge_fsdp_weights(str(shared / "pytorch_model_fsdp_0"), str(folder / "merged"))
    same(load_file(folder / "merged/model.safetensors"), weights)
    named = read_dcp(shared / "optimizer_0")["optimizer"]
    back = convert(binary, folder, "dcp", "back", "--to", "accelerate")
    same_optimizer(torch.load(back / "optimizer.bin"), optimizer)
    assert len(named["state"]) == len(optimizer["state"])

    vocab, context = weights["transformer.wte.weight"].shape[0], weights["transformer.wpe.weight"].shape[0]
    for words in (["--to", "safetensors"], ["--to", "bin"], ["--to", "safetensors", "--max-shard-size", "5 KB"],
                  ["--to", "bin", "--max-shard-size", "5 KB"]):
        target = convert(binary, folder, source, "to" + "".join(words).replace(" ", ""), *words)
        model = Gpt(vocab, context, layers=2, heads=2, width=16)
        load_checkpoint_in_model(model, str(target), strict=True)
        same({name: tensor for name, tensor in model.state_dict().items() if name in weights}, weights)

    # Cut as Accelerate itself cuts the same model.
    accelerator = Accelerator(cpu=True)
    accelerator.save_model(model, str(folder / "saved"), max_shard_size="5KB")
    names = sorted(path.name for path in (folder / "saved").iterdir())
    sharded = folder / "to--tosafetensors--max-shard-size5KB"
    assert sorted(path.name for path in sharded.iterdir()) == names and len(names) > 2, names
    for name in names:
        assert (sharded / name).read_bytes() == (folder / "saved" / name).read_bytes(), name


def check_theirs(binary, folder):
    """FSDP's folders, as PyTorch reads them and as we convert them."""
    for name in ("fsdp1", "fsdp2"):
        target = convert(binary, folder, GOLDEN / name, name, "--to", "accelerate")
        same(load_file(target / "model.safetensors"), read_dcp(GOLDEN / name / "pytorch_model_fsdp_0")["model"])
        named = read_dcp(GOLDEN / name / "optimizer_0")["optimizer"]
        parameters = [parameter for group in named["param_groups"] for parameter in group["params"]]
        optimizer = torch.load(target / "optimizer.bin")
        assert [i for group in optimizer["param_groups"] for i in group["params"]] == list(range(len(parameters)))
        for i, parameter in enumerate(parameters):
            same(optimizer["state"][i], named["state"][parameter])
    full = convert(binary, folder, GOLDEN / "fsdp_full", "fsdp_full", "--to", "accelerate")
    same(load_file(full / "model.safetensors"), torch.load(GOLDEN / "fsdp_full/pytorch_model_fsdp.bin"))


def main():
    binary = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        check_ours(binary, Path(name))
        check_theirs(binary, Path(name))


if __name__ == "__main__":
    main()
