"""Writes distributed checkpoints with PyTorch and with Accelerate's FSDP, and what they hold.

    python tests/interop/make_fsdp_checkpoints.py tests/unit/formats/golden

dcp_one, dcp_two: torch.distributed.checkpoint.save in one and two processes. fsdp1, fsdp2:
Accelerate's save_state with SHARDED_STATE_DICT in two. fsdp_full: the same with FULL_STATE_DICT.
<folder>.tsv has a line per entry as PyTorch itself reads it: name; a tensor's type, shape and
CRC-32, or what repr() says of another value.
"""

import os
import shutil
import sys
import tempfile
import zlib
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

WORLD = 2


def line_of(name, value):
    if not isinstance(value, torch.Tensor):
        return f"{name}\tobject\t{value!r}"
    data = value.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    return f"{name}\t{str(value.dtype).split('.')[1]}\t{list(value.shape)}\t{zlib.crc32(data)}"


def write_table(path, flat):
    path.write_text("".join(line_of(name, flat[name]) + "\n" for name in sorted(flat)))


def read_with_torch(folder):
    state = {}
    _load_state_dict(state, storage_reader=dcp.FileSystemReader(folder),
                     planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return flatten_state_dict(state)[0]


def mixed_state():
    torch.manual_seed(0)
    types = [torch.bool, torch.uint8, torch.int16, torch.float16, torch.bfloat16, torch.int64, torch.float64]
    return {
        "model": {"weight": torch.randn(3, 4), "scalar": torch.tensor(2.5), "none": torch.zeros(0, 3),
                  "turned": torch.randn(4, 3).t(), "part": torch.randn(10)[2:5]},
        "types": {str(dtype).split(".")[1]: torch.arange(6).reshape(2, 3).to(dtype) for dtype in types},
        "step": 7, "lr": [1e-3, 2.5], "name": "tiny", "flags": {"a": True, "b": None}, "pair": (1, 2),
    }


def save_dcp_one(folder):
    dcp.save(mixed_state(), checkpoint_id=folder, no_dist=True)


def save_dcp_two(folder):
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (WORLD,))
    whole = {"rows": torch.randn(5, 3), "columns": torch.randn(4, 7), "one_row": torch.randn(1, 4),
             "deep": torch.randn(2, 3, 4), "whole": torch.randn(2, 2)}
    places = {"rows": Shard(0), "columns": Shard(1), "one_row": Shard(0), "deep": Shard(1),
              "whole": Replicate()}
    state = {name: distribute_tensor(tensor, mesh, [places[name]]) for name, tensor in whole.items()}
    dcp.save({"model": state, "step": 3}, checkpoint_id=folder)
    return {f"model.{name}": tensor for name, tensor in whole.items()}


def prepared(version, kind, optimizer_class, options):
    from accelerate import Accelerator, DistributedType, FullyShardedDataParallelPlugin, PartialState
    from accelerate.utils import set_seed

    set_seed(42)
    plugin = FullyShardedDataParallelPlugin(fsdp_version=version, state_dict_type=kind,
                                            auto_wrap_policy="NO_WRAP", use_orig_params=True)
    PartialState(cpu=True)
    # Accelerate takes up FSDP only where it finds several GPUs; all that follows works without.
    PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    PartialState._shared_state["device"] = torch.device("cpu")
    accelerator = Accelerator(cpu=True, fsdp_plugin=plugin)
    assert accelerator.distributed_type == DistributedType.FSDP
    net = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 2))
    optimizer = optimizer_class(net.parameters(), **options)
    return accelerator, *accelerator.prepare(net, optimizer)


def train_step(accelerator, net, optimizer):
    accelerator.backward(net(torch.randn(4, 3)).square().mean())
    optimizer.step()
    optimizer.zero_grad()


def save_fsdp(folder, version, kind, optimizer_class, options):
    from torch.distributed.fsdp import FullyShardedDataParallel

    accelerator, net, optimizer = prepared(version, kind, optimizer_class, options)
    for _ in range(2):
        train_step(accelerator, net, optimizer)
    accelerator.save_state(folder)
    if version == 2:
        return {name: value.full_tensor() for name, value in net.named_parameters()}
    with FullyShardedDataParallel.summon_full_params(net):
        return {name.split("module.")[-1]: value.clone() for name, value in net.named_parameters()}


OPTIMIZERS = {"fsdp1": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
              "fsdp2": (torch.optim.AdamW, {"lr": 1e-3}),
              "fsdp_full": (torch.optim.AdamW, {"lr": 1e-3})}


def join(rank, job, port):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), ACCELERATE_USE_CPU="true",
                      ACCELERATE_USE_FSDP="true" if job.startswith("fsdp") else "false")
    torch.set_num_threads(1)


def leave():
    """Ends a rank at once: PyTorch's threads at times abort one that ends in Python's own way."""
    dist.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def rank_main(rank, job, folder, port):
    join(rank, job, port)
    folder = Path(folder)
    if job == "dcp_two":
        dist.init_process_group("gloo")
        expected = save_dcp_two(folder)
    else:
        kind = "FULL_STATE_DICT" if job == "fsdp_full" else "SHARDED_STATE_DICT"
        expected = save_fsdp(folder, 1 if job == "fsdp1" else 2, kind, *OPTIMIZERS[job])
    if rank == 0:
        torch.save(expected, folder / "expected.pt")
    leave()


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def check(flat, expected, prefix):
    for name, tensor in expected.items():
        assert torch.equal(flat[prefix + name], tensor), name


def keep(source, out, parts):
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for part in parts:
        copy = shutil.copytree if (source / part).is_dir() else shutil.copy
        copy(source / part, out / part)


def make(job, out, scratch):
    folder = scratch / job
    if job == "dcp_one":
        save_dcp_one(folder)
    else:
        folder.mkdir()
        mp.start_processes(rank_main, args=(job, str(folder), free_port()), nprocs=WORLD, start_method="spawn")
    flat = {}
    if job.startswith("dcp"):
        keep(folder, out / job, [p.name for p in folder.iterdir() if p.name != "expected.pt"])
        flat = read_with_torch(folder)
    elif job == "fsdp_full":
        keep(folder, out / job, ["pytorch_model_fsdp.bin", "optimizer.bin"])
        model = torch.load(folder / "pytorch_model_fsdp.bin")
        optimizer = torch.load(folder / "optimizer.bin")
        flat = flatten_state_dict({"model": model, "optimizer": optimizer})[0]
    else:
        parts = ["pytorch_model_fsdp_0", "optimizer_0"]
        keep(folder, out / job, parts)
        for part in parts:
            flat |= read_with_torch(folder / part)
    if (folder / "expected.pt").exists():
        check(flat, torch.load(folder / "expected.pt"), "" if job == "dcp_two" else "model.")
    write_table(out / f"{job}.tsv", flat)


def main():
    os.environ.update(OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
    with tempfile.TemporaryDirectory() as scratch:
        for job in sys.argv[2:] or ["dcp_one", "dcp_two", "fsdp1", "fsdp2", "fsdp_full"]:
            make(job, Path(sys.argv[1]), Path(scratch))


if __name__ == "__main__":
    main()
