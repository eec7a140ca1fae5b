"""One peer at one work, on the GPU or the CPU: seconds of a step.

    peer.py RESULT PEER WORK DEVICE STEPS

WORK is JSON (see works.py). PEER: eager (PyTorch with the fused optimizer), compile (torch.compile of the model),
accelerate. Batches come from pinned memory. The seconds are means of windows of 5 steps, the device waited for.
"""

import json
import sys
import time

import torch
from torch.nn import functional as F

import models  # tests/interop


def transformers_model(work):
    import transformers

    if work["kind"] == "llama":
        config = transformers.LlamaConfig(
            vocab_size=work["vocab"], hidden_size=work["width"], intermediate_size=work["mlp"], tie_word_embeddings=False,
            num_hidden_layers=work["layers"], num_attention_heads=work["heads"], num_key_value_heads=work["kv_heads"],
            max_position_embeddings=work["context"], use_cache=False)
        return transformers.LlamaForCausalLM(config)
    config = transformers.BertConfig(
        vocab_size=work["vocab"], hidden_size=work["width"], intermediate_size=4 * work["width"], num_labels=2,
        num_hidden_layers=work["layers"], num_attention_heads=work["heads"], max_position_embeddings=work["context"],
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return transformers.BertForSequenceClassification(config)


def build(work):
    """The model, and a function of it and a batch that gives the loss."""
    torch.manual_seed(42)
    if work["kind"] == "gpt":
        model = models.Gpt(work["vocab"], work["context"], work["layers"], work["heads"], work["width"])
    elif work["kind"] == "resnet":
        model = models.ResNet(work["depth"], "imagenet", 3, work["classes"])
    else:
        model = transformers_model(work)

    def loss_of(run, inputs, targets):
        out = run(inputs)
        logits = getattr(out, "logits", out)
        return F.cross_entropy(logits.flatten(0, -2), targets.flatten())

    return model, loss_of


def batches(work, device):
    draw = torch.Generator().manual_seed(1)
    for _ in range(4):
        if work["kind"] == "resnet":
            inputs = torch.rand(work["batch"], 3, work["side"], work["side"], generator=draw)
            targets = torch.randint(work["classes"], (work["batch"],), generator=draw)
        else:
            inputs = torch.randint(1, work["vocab"], (work["batch"], work["context"]), generator=draw)
            targets = torch.randint(2, (work["batch"],), generator=draw) if work["kind"] == "bert" else inputs.roll(-1, 1)
        yield (inputs.pin_memory(), targets.pin_memory()) if device == "cuda" else (inputs, targets)


def main():
    result, peer, work, device, steps = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4], int(sys.argv[5])
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    started = time.perf_counter()
    model, loss_of = build(work)
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    backward = torch.Tensor.backward

    def cast():
        return torch.autocast(device, torch.bfloat16)

    if peer == "accelerate":
        from accelerate import Accelerator

        accelerator = Accelerator(mixed_precision="bf16", cpu=device == "cpu")
        model, optimizer = accelerator.prepare(model, optimizer)
        backward, cast = accelerator.backward, accelerator.autocast
    run = torch.compile(model) if peer == "compile" else model
    given = list(batches(work, device))
    seconds, first, last, losses = [], None, time.perf_counter(), []
    for step in range(steps):
        inputs, targets = (part.to(device, non_blocking=True) for part in given[step % len(given)])
        with cast():
            loss = loss_of(run, inputs, targets)
        backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if step == 0:
            losses.append(float(loss))
            first = time.perf_counter() - started
        if step % 5 == 4:
            wait()
            seconds.append((time.perf_counter() - last) / 5)
            last = time.perf_counter()
    memory = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0
    json.dump({"seconds": seconds[1:] or seconds, "first_step": first, "first_loss": losses[0], "memory_mib": memory,
               "parameters": sum(p.numel() for p in model.parameters())}, open(result, "w"))


main()
