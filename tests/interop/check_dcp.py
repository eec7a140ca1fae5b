"""Loads distributed checkpoints that accel-run wrote again, with PyTorch and with Accelerate's FSDP.

    python tests/interop/check_dcp.py GOLDEN WRITTEN

GOLDEN has the folders of make_fsdp_checkpoints.py with their tables, WRITTEN the same as one rank.
Each must hold what its table says, load into tensors sharded over two ranks, into FSDP models and
optimizers through Accelerate, and merge into plain weights.
"""

import os
import sys
import tempfile
from pathlib import Path

import make_fsdp_checkpoints as made
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from safetensors.torch import load_file

PARTS = {"fsdp1": ["pytorch_model_fsdp_0", "optimizer_0"], "fsdp2": ["pytorch_model_fsdp_0", "optimizer_0"],
         "dcp_one": ["."], "dcp_two": ["."]}


def check_tables(golden, written):
    for name, parts in PARTS.items():
        flat = {}
        for part in parts:
            flat |= made.read_with_torch(written / name / part)
        lines = "".join(made.line_of(key, flat[key]) + "\n" for key in sorted(flat))
        assert lines == (golden / f"{name}.tsv").read_text(), f"{name} holds\n{lines}"


def check_load_in_place(written):
    state = made.mixed_state()
    wanted = made.mixed_state()
    for part in state["model"].values(), state["types"].values():
        for tensor in part:
            tensor.zero_()
    state["step"] = 0
    dcp.load(state, checkpoint_id=written / "dcp_one", no_dist=True)
    for key in "model", "types":
        for name, tensor in wanted[key].items():
            assert torch.equal(state[key][name], tensor), name
    assert state["step"] == 7 and state["name"] == "tiny" and state["lr"] == [1e-3, 2.5]


def check_merge(written):
    from accelerate.utils import merge_fsdp_weights
    for name in "fsdp1", "fsdp2":
        with tempfile.TemporaryDirectory() as out:
            merge_fsdp_weights(str(written / name / "pytorch_model_fsdp_0"), out)
            weights = load_file(Path(out) / "model.safetensors")
        wanted = made.read_with_torch(written / name / "pytorch_model_fsdp_0")
        assert {f"model.{key}" for key in weights} == set(wanted)
        for key, tensor in weights.items():
            assert torch.equal(tensor, wanted[f"model.{key}"]), key


def check_fsdp(rank, job, golden, written, port):
    made.join(rank, job, port)
    version = int(job[-1])
    accelerator, net, optimizer = made.prepared(version, "SHARDED_STATE_DICT", *made.OPTIMIZERS[job])
    # Accelerate loads into the state there is, and FSDP1 has none before a first step.
    made.train_step(accelerator, net, optimizer)
    accelerator.load_state(written)
    # Saved again, it must be what it was when the golden files were made.
    with tempfile.TemporaryDirectory() as scratch:
        shared = [scratch]
        dist.broadcast_object_list(shared)
        accelerator.save_state(shared[0])
        dist.barrier()
        if rank == 0:
            flat = {}
            for part in PARTS[job]:
                flat |= made.read_with_torch(Path(shared[0]) / part)
            lines = "".join(made.line_of(key, flat[key]) + "\n" for key in sorted(flat))
            assert lines == (golden / f"{job}.tsv").read_text(), f"{job} holds\n{lines}"
        dist.barrier()
    made.leave()


def main():
    golden, written = Path(sys.argv[1]), Path(sys.argv[2])
    check_tables(golden, written)
    check_load_in_place(written)
    check_merge(written)
    for job in "fsdp1", "fsdp2":
        mp.start_processes(check_fsdp, args=(job, golden, str(written / job), made.free_port()),
                           nprocs=made.WORLD, start_method="spawn")


if __name__ == "__main__":
    os.environ.update(OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
    main()
