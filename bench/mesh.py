#!/usr/bin/env python3
"""Tensor and pipeline parallel training of two ranks on this machine, beside PyTorch's own.

    mesh.py ACCEL_RUN PYTHON FOLDER [ROUNDS [NAME...]]

PYTHON has torch and transformers installed. FOLDER is made; mesh.json is left in it. Both sides train transformers'
Llama from the same folder on the same batches, with one thread per rank: ours through `accelerator.parallelism`, theirs
by DTensor's parallel styles or by torch.distributed.pipelining. Their losses must agree within 1e-6. The sides take
turns; medians and ratios are printed. NAME: tp, tp+sequence, gpipe, 1f1b, interleaved_1f1b.
"""

import json
import os
import random
import statistics
import sys
from array import array
from pathlib import Path

import ranks

BOUND = 1e-6  # of the relative difference of two losses
SEQUENCE, BATCH, MICRO_BATCH, STEPS = 128, 16, 4, 10
VOCABULARY = 512
CONFIG = {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 8, "num_attention_heads": 8,
          "num_key_value_heads": 4, "vocab_size": VOCABULARY, "max_position_embeddings": SEQUENCE,
          "tie_word_embeddings": False, "attention_bias": False}
RECIPE = f"""
model: {{type: auto, weights: llama}}
data:
  train: {{type: tokens, path: tokens.bin, vocab_size: {VOCABULARY}, max_seq_len: {SEQUENCE}}}
  loader: {{shuffle: false, workers: 0}}
optimizer: {{type: adamw, lr: 0.001}}
train: {{until: {STEPS} steps, batch: {BATCH}, micro_batch: {MICRO_BATCH}}}
accelerator: {{num_cpu_threads_per_process: 1, num_processes: 2}}
checkpoint: {{every: never, at_end: false}}
log: {{every: 1 steps}}
"""
WORDS = {
    "tp": ["accelerator.parallelism.tp=2"],
    "tp+sequence": ["accelerator.parallelism.tp=2", "accelerator.parallelism.sequence_parallel=true"],
    "gpipe": ["accelerator.parallelism.pp=2", "accelerator.pipeline.schedule=gpipe"],
    "1f1b": ["accelerator.parallelism.pp=2", "accelerator.pipeline.schedule=1f1b"],
    "interleaved_1f1b": ["accelerator.parallelism.pp=2", "accelerator.pipeline.schedule=interleaved_1f1b"],
}

# argv: the side's name, sizes as JSON, where the results go.
SCRIPT = '''
import json, os, sys, time
import numpy, torch, transformers
import torch.distributed as dist
from torch.distributed import pipelining
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               parallelize_module)
from torch.nn import functional as F

name, sizes, path = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
tokens = torch.from_numpy(numpy.fromfile("tokens.bin", numpy.uint16).astype(numpy.int64))
length, batch, micro = sizes["sequence"], sizes["batch"], sizes["micro_batch"]
windows = [tokens[i * length : i * length + length + 1] for i in range(batch * sizes["steps"])]
model = transformers.LlamaForCausalLM.from_pretrained("llama", dtype=torch.float32, attn_implementation="sdpa")
model.train()


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def batches(step):
    rows = torch.stack(windows[step * batch : (step + 1) * batch])
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def tensor_parallel(sequence):
    mesh = init_device_mesh("cpu", (2,))
    layout = Shard(1) if sequence else Replicate()
    plan = {"model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=layout),
            "lm_head": ColwiseParallel(input_layouts=layout, output_layouts=Replicate())}
    for i in range(len(model.model.layers)):
        at = f"model.layers.{i}."
        for part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
            plan[at + part] = ColwiseParallel()
        for part in ("self_attn.o_proj", "mlp.down_proj"):
            plan[at + part] = RowwiseParallel(output_layouts=layout)
        if sequence:
            plan[at + "input_layernorm"] = plan[at + "post_attention_layernorm"] = SequenceParallel()
            plan[at + "self_attn"] = PrepareModuleInput(input_kwarg_layouts={"hidden_states": layout},
                                                        desired_input_kwarg_layouts={"hidden_states": Replicate()})
            plan[at + "mlp"] = PrepareModuleInput(input_layouts=layout, desired_input_layouts=Replicate())
    if sequence:
        plan["model.norm"] = SequenceParallel()
    parallelize_module(model, mesh, plan)
    positions = torch.arange(length)[None]

    def step(inputs, targets):
        total = 0.0
        for part, wanted in zip(inputs.split(micro), targets.split(micro)):
            logits = model(part, position_ids=positions, use_cache=False).logits
            loss = loss_of(logits, wanted) / (batch // micro)
            loss.backward()
            total += loss.item()
        return total

    return step, model.parameters()


class Stage(torch.nn.Module):
    def __init__(self, first, last):
        super().__init__()
        layers = model.model.layers
        self.embed = model.model.embed_tokens if first == 0 else None
        self.layers = layers[first:last]
        self.ends = last == len(layers)
        self.norm, self.head = (model.model.norm, model.lm_head) if self.ends else (None, None)
        self.rotary = model.model.rotary_emb

    def forward(self, x):
        if self.embed is not None:
            x = self.embed(x)
        positions = torch.arange(x.shape[1])[None]
        rotary = self.rotary(x, positions)
        for layer in self.layers:
            x = layer(x, attention_mask=None, position_ids=positions, position_embeddings=rotary)
        return self.head(self.norm(x)) if self.ends else x


def pipeline(kind):
    per_rank = 2 if kind == "interleaved_1f1b" else 1
    stages = 2 * per_rank
    each = len(model.model.layers) // stages
    own = [pipelining.PipelineStage(Stage(i * each, (i + 1) * each), i, stages, torch.device("cpu"))
           for i in range(rank, stages, 2)]
    make = {"gpipe": pipelining.ScheduleGPipe, "1f1b": pipelining.Schedule1F1B,
            "interleaved_1f1b": pipelining.ScheduleInterleaved1F1B}[kind]
    schedule = make(own if per_rank > 1 else own[0], batch // micro, loss_fn=loss_of)

    def step(inputs, targets):
        losses = []
        if rank == 0:
            schedule.step(inputs)
        else:
            schedule.step(target=targets, losses=losses)
        loss = torch.stack(losses).mean().detach() if losses else torch.zeros(())
        dist.broadcast(loss, 1)
        return loss.item()

    return step, [p for stage in own for p in stage.submod.parameters()]


step, parameters = tensor_parallel("sequence" in name) if name.startswith("tp") else pipeline(name)
optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=not name.startswith("tp"))  # DTensor has no fused one
seconds, losses = [], []
for i in range(sizes["steps"]):
    start = time.perf_counter()
    losses.append(step(*batches(i)))
    optimizer.step()
    optimizer.zero_grad()
    seconds.append(time.perf_counter() - start)
if rank == 0:
    json.dump({"seconds": seconds, "losses": losses}, open(path, "w"))
dist.barrier()
os._exit(0)
'''

MAKE_MODEL = """
import json, sys, torch, transformers
torch.manual_seed(0)
transformers.LlamaForCausalLM(transformers.LlamaConfig(**json.loads(sys.argv[1]))).save_pretrained("llama")
"""


def prepare(bench):
    (bench.folder / "mesh_script.py").write_text(SCRIPT)
    random.seed(1)
    words = [random.randrange(VOCABULARY) for _ in range(64)]
    with (bench.folder / "tokens.bin").open("wb") as out:
        array("H", (random.choice(words) for _ in range(SEQUENCE * BATCH * STEPS + 1))).tofile(out)
    bench.finish(bench.start([bench.python, "-c", MAKE_MODEL, json.dumps(CONFIG)]))


def theirs(bench, name):
    sizes = {"sequence": SEQUENCE, "batch": BATCH, "micro_batch": MICRO_BATCH, "steps": STEPS}
    bench.finish(bench.start([*ranks.torchrun(bench.python), "mesh_script.py", name, json.dumps(sizes), "result.json"]))
    result = json.loads((bench.folder / "result.json").read_text())
    return result["seconds"], result["losses"]


def main():
    binary, python, folder = (Path(word).absolute() for word in sys.argv[1:4])
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    names = sys.argv[5:] or list(WORDS)
    bench = ranks.Bench(binary, python, folder)
    prepare(bench)
    found = {}
    for name in names:
        seconds, worst = {"ours": [], "theirs": []}, 0.0
        for _ in range(rounds):
            mine, losses = bench.steps_of(*bench.ours(RECIPE, *WORDS[name]), BATCH)
            peers, wanted = theirs(bench, name)
            worst = max(worst, ranks.check_losses(name, losses, wanted, BOUND))
            seconds["ours"] += mine[ranks.WARM_UP:]
            seconds["theirs"] += peers[ranks.WARM_UP:]
        time = {side: statistics.median(values) for side, values in seconds.items()}
        least = min(seconds["theirs"]) / min(seconds["ours"])
        found[name] = {"theirs / ours": time["theirs"] / time["ours"], "least": least, "losses within": worst}
        print(f"{name:17} step, ms: ours {time['ours'] * 1e3:7.1f}, PyTorch's {time['theirs'] * 1e3:7.1f};"
              f" {time['theirs'] / time['ours']:.2f}x as fast, by the least times {least:.2f}x;"
              f" losses within {worst:.1e}; load {os.getloadavg()[0]:.1f}", flush=True)
    (folder / "mesh.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
