"""Writes checkpoints with DeepSpeed through Accelerate's save_state on the CPU, and what they hold.

    python tests/interop/make_deepspeed_checkpoints.py tests/unit/formats/golden

zero1 (float32), zero2 and zero3 (bfloat16): two processes, two groups of parameters, frozen and tied ones,
sizes that the ranks divide unevenly. <folder>.tsv has a line per tensor, as in make_fsdp_checkpoints.py: weights by
DeepSpeed's zero_to_fp32, moments as DeepSpeed gathers them or by the addresses that it writes.
"""

import os
import sys
import tempfile
from pathlib import Path

os.environ.update(DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from make_fsdp_checkpoints import free_port, keep, write_table

WORLD = 2
JOBS = {"zero1": (1, "no"), "zero2": (2, "bf16"), "zero3": (3, "bf16")}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(7, 3)
        self.fc = torch.nn.Linear(3, 5)
        self.frozen = torch.nn.Linear(5, 5)
        self.norm = torch.nn.LayerNorm(5)
        self.out = torch.nn.Linear(5, 3)
        self.head = torch.nn.Linear(3, 7, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.tensor([1.5, 2.0]))
        self.frozen.requires_grad_(False)

    def forward(self, x):
        return self.head(self.out(torch.relu(self.norm(self.frozen(self.fc(self.embed(x))))))) * self.scale[0]


def accelerator_of(stage, mixed_precision):
    """Accelerate with DeepSpeed on the CPU, where it would count one process."""
    import deepspeed
    from accelerate import Accelerator, DeepSpeedPlugin
    from accelerate.state import AcceleratorState, PartialState

    deepspeed.ops.__compatible_ops__ = {}  # no compiler for an operator of shared memory
    plugin = DeepSpeedPlugin(hf_ds_config={
        "zero_optimization": {"stage": stage}, "gradient_accumulation_steps": 1, "train_micro_batch_size_per_gpu": 4,
        "zero_allow_untested_optimizer": True, "bf16": {"enabled": mixed_precision == "bf16"}})
    accelerator = Accelerator(deepspeed_plugin=plugin, mixed_precision=mixed_precision)
    for state in (PartialState, AcceleratorState):
        state._shared_state.update(num_processes=dist.get_world_size(), process_index=dist.get_rank(),
                                   local_process_index=dist.get_rank())
    assert str(accelerator.distributed_type) == "DistributedType.DEEPSPEED"
    return accelerator


def optimizer_for(net):
    trained = [p for p in net.parameters() if p.requires_grad]
    return torch.optim.AdamW([{"params": [p for p in trained if p.dim() > 1]},
                              {"params": [p for p in trained if p.dim() == 1], "weight_decay": 0.0}], lr=1e-2)


def train(accelerator, net, optimizer, steps):
    for step in steps:
        numbers = torch.Generator().manual_seed(10 * step + dist.get_rank())
        x = torch.randint(0, 7, (4,), generator=numbers)
        accelerator.backward(torch.nn.functional.cross_entropy(net(x).float(), x))
        optimizer.step()
        optimizer.zero_grad()


SLOTS = ("exp_avg", "exp_avg_sq")


def gathered_moments(net):
    """Of stage 3, by DeepSpeed itself. Every rank takes part."""
    from deepspeed.utils import safe_get_full_optimizer_state
    return {f"{name}.{slot}": safe_get_full_optimizer_state(parameter, slot).clone()
            for name, parameter in net.named_parameters() if parameter.requires_grad for slot in SLOTS}


def mapped_moments(folder, shapes):
    """Of stages 1 and 2, by the addresses of fragments that DeepSpeed writes into its files."""
    out = {}
    for path in sorted((folder / "pytorch_model").glob("*_optim_states.pt")):
        zero = torch.load(path, weights_only=False)["optimizer_state_dict"]
        for group, addresses in enumerate(zero["param_slice_mappings"]):
            state = zero["base_optimizer_state"]["state"][group]
            for name, address in addresses.items():
                for slot in SLOTS:
                    part = state[slot].narrow(0, address.start, address.numel)
                    out.setdefault(f"{name}.{slot}", []).append(part)
    return {key: torch.cat(parts).view(shapes[key.rsplit(".", 1)[0]]) for key, parts in out.items()}


def save(rank, job, folder, world, port):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), ACCELERATE_USE_DEEPSPEED="true")
    torch.set_num_threads(1)
    accelerator = accelerator_of(*JOBS[job])
    torch.manual_seed(1)
    net = Net()
    net, optimizer = accelerator.prepare(net, optimizer_for(net))
    train(accelerator, net, optimizer, range(2))
    accelerator.save_state(folder)
    if JOBS[job][0] == 3:
        moments = gathered_moments(net.module)
        if rank == 0:
            torch.save(moments, Path(folder) / "moments.pt")
    dist.barrier()
    os._exit(0)


def save_all(job, folder, world=WORLD):
    folder.mkdir()
    mp.start_processes(save, args=(job, str(folder), world, free_port()), nprocs=world, start_method="spawn")


def weights_of(folder):
    """By DeepSpeed's converter."""
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
    state = get_fp32_state_dict_from_zero_checkpoint(str(folder))
    return {f"model.{name}": tensor.contiguous() for name, tensor in state.items()}


def table_of(job, folder):
    weights = weights_of(folder)
    shapes = {name.removeprefix("model."): tensor.shape for name, tensor in weights.items()}
    moments = (torch.load(folder / "moments.pt") if JOBS[job][0] == 3 else mapped_moments(folder, shapes))
    moments |= {f"{key.rsplit('.', 1)[0]}.step": torch.tensor(2.0) for key in list(moments)}
    return weights | {f"optimizer.state.{key}": tensor for key, tensor in moments.items()}


def main():
    with tempfile.TemporaryDirectory() as scratch:
        for job in sys.argv[2:] or JOBS:
            folder, out = Path(scratch) / job, Path(sys.argv[1])
            save_all(job, folder)
            keep(folder, out / job, ["latest", "pytorch_model", "zero_to_fp32.py"])
            (out / job / "zero_to_fp32.py").write_text("# DeepSpeed's converter, of which the name alone matters.\n")
            write_table(out / f"{job}.tsv", table_of(job, folder))


if __name__ == "__main__":
    main()
