#!/usr/bin/env python3
"""fp8 training against torchao's on the CPU, and delayed scaling against Transformer Engine's formulas.

    check_fp8.py [--write | ACCEL_RUN]

The golden casts, which the unit tests compare bit for bit, are torchao's. Llama is trained with the same weights
and batches as torchao's Float8Linear in emulation, under Accelerate's filter of layers.
"""

import contextlib
import json
import os
import re
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from torch.optim.optimizer import register_optimizer_step_post_hook
from accelerate.utils.ao import convert_model_to_fp8_ao
from torchao.float8 import Float8LinearConfig
from torchao.float8.float8_linear import Float8Linear
from torchao.float8.float8_utils import tensor_to_scale, to_fp8_saturated
from torchao.float8.config import ScalingGranularity

import check_hf_models as models

GOLDEN = Path(__file__).resolve().parents[2] / "tests/unit/kernels/golden/fp8.json"
TYPES = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
RECIPES = {"tensorwise": "tensorwise", "rowwise": "rowwise", "rowwise_gw_hp": "rowwise_with_gw_hp"}
LLAMA = {**models.LLAMA, "hidden_size": 64, "intermediate_size": 96, "vocab_size": 64}
DELAYED = {"margin": 1, "length": 4}
LIMIT, FIRST_LIMIT = 1e-3, 2e-4  # of relative differences of losses, and of the first one
LR = 0.02  # of SGD: the first steps of AdamW take the signs of gradients, and with them noise of bf16


def bits(tensor):
    kind = torch.int16 if tensor.dtype == torch.bfloat16 else torch.int32
    return tensor.contiguous().flatten().view(kind).tolist()


def cast(values, name, by_row):
    more = {"scaling_granularity": ScalingGranularity.AXISWISE, "axiswise_dim": 1} if by_row else {}
    scale = tensor_to_scale(values, TYPES[name], round_scales_to_power_of_2=by_row, **more)
    saturated = to_fp8_saturated(values.float() * scale, TYPES[name])
    return {"type": name, "by_row": by_row, "scale": bits(scale),
            "bytes": saturated.view(torch.uint8).flatten().tolist()}


def next_scale(history, scale, most, margin, algorithm):
    """Transformer Engine's compute_scale_from_amax: the scale of the next step, and the history without this step's.

    `most` is a tensor: torch divides a Python number by a reciprocal, with other bits than the kernel's quotient.
    """
    amax = history.max() if algorithm == "max" else history[0].clone()
    if len(history) > 1:
        history = torch.roll(history, -1)
    history[0] = 0
    found = (most / amax) / 2**margin
    found = torch.where(amax > 0, found, scale)
    found = torch.where(torch.isfinite(amax), found, scale)
    return torch.where(torch.isinf(found), torch.finfo(torch.float32).max, found), history


def delayed(algorithm, margin, length, amaxes):
    history, scale, scales = torch.zeros(length), torch.tensor(1.0), []
    for amax in amaxes:
        history[0] = torch.maximum(history[0], amax)
        scale, history = next_scale(history, scale, torch.tensor(448.0), margin, algorithm)
        scales.append(scale)
    return {"algorithm": algorithm, "margin": margin, "length": length, "scales": bits(torch.stack(scales))}


def emulated(recipe):
    config = Float8LinearConfig.from_recipe_name(RECIPES[recipe])
    object.__setattr__(config, "emulate", True)
    return config


def linear(recipe, x, weight, gradient):
    """Output and gradients of torchao's layer. Its emulated products round once to bf16."""
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=torch.bfloat16)
    layer.weight.data.copy_(weight)
    layer = Float8Linear.from_float(layer, emulated(recipe))
    x = x.clone().requires_grad_()
    y = layer(x)
    y.backward(gradient)
    return {"recipe": recipe, "y": bits(y.detach()), "dx": bits(x.grad), "dw": bits(layer.weight.grad)}


def linears():
    """Rows and columns of different magnitudes: each scale matters."""
    def matrix(rows, columns):
        return (torch.randn(rows, columns) * torch.exp(2 * torch.randn(rows, 1)) * torch.exp(torch.randn(columns))
                ).to(torch.bfloat16)

    x, weight, gradient = matrix(16, 32), matrix(16, 32), matrix(16, 16)
    return {"x": bits(x), "weight": bits(weight), "gradient": bits(gradient),
            "results": [linear(recipe, x, weight, gradient) for recipe in RECIPES]}


def golden():
    torch.manual_seed(11)
    values = torch.randn(16, 32) * torch.exp(3 * torch.randn(16, 1))
    values[2] = 0
    values[3, 4] = -0.0
    values[5, 5] = 1e-41
    amaxes = torch.exp(2 * torch.randn(12))
    amaxes[4] = 0
    return {"rows": 16, "columns": 32, "values": bits(values),
            "casts": [cast(values, name, by_row) for name in TYPES for by_row in (False, True)],
            "amaxes": bits(amaxes), "linear": linears(),
            "delayed": [delayed(algorithm, margin, length, amaxes) for algorithm in ("max", "most_recent")
                        for margin in (0, 2) for length in (1, 5)]}


@contextlib.contextmanager
def autocast_of_linear():
    """Float8Linear asks for the autocast of CUDA; here its input and weight are cast as by that of the CPU."""
    plain = Float8Linear.forward

    def forward(self, inputs):
        weight = self.weight
        del self._parameters["weight"]
        self.weight = weight.to(torch.bfloat16)
        try:
            return plain(self, inputs.to(torch.bfloat16))
        finally:
            del self.weight
            self._parameters["weight"] = weight

    Float8Linear.forward = forward
    try:
        yield
    finally:
        Float8Linear.forward = plain


class DelayedState:
    """Scales of input, weight and gradient: Transformer Engine's delayed scaling."""

    types = (torch.float8_e4m3fn, torch.float8_e4m3fn, torch.float8_e5m2)

    def __init__(self):
        self.scales = [torch.tensor(1.0)] * 3
        self.histories = [torch.zeros(DELAYED["length"]) for _ in self.types]

    def record(self, operand, values):
        self.histories[operand][0] = torch.maximum(self.histories[operand][0], values.abs().amax().float())

    def rounded(self, operand, values):
        scale = self.scales[operand]
        return to_fp8_saturated(values.float() * scale, self.types[operand]).float() / scale

    def update(self):
        for i, kind in enumerate(self.types):
            self.scales[i], self.histories[i] = next_scale(
                self.histories[i], self.scales[i], torch.tensor(torch.finfo(kind).max), DELAYED["margin"], "max")


class DelayedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, inputs, weight, state):
        ctx.save_for_backward(inputs, weight)
        ctx.state = state
        state.record(0, inputs)
        state.record(1, weight)
        return torch.mm(state.rounded(0, inputs), state.rounded(1, weight).t()).to(inputs.dtype)

    @staticmethod
    def backward(ctx, gradient):
        inputs, weight = ctx.saved_tensors
        ctx.state.record(2, gradient)
        rounded = ctx.state.rounded(2, gradient)
        return (torch.mm(rounded, ctx.state.rounded(1, weight)).to(gradient.dtype),
                torch.mm(rounded.t(), ctx.state.rounded(0, inputs)).to(gradient.dtype), None)


def convert_to_delayed(model):
    """All linear layers but the head. Returns their names, and the scales."""
    states = {}

    def forward_of(layer, state):
        def forward(inputs):
            rows = inputs.to(torch.bfloat16).flatten(0, -2)
            return DelayedProduct.apply(rows, layer.weight.to(torch.bfloat16), state).unflatten(0, inputs.shape[:-1])
        return forward

    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.Linear) and name != "lm_head":
            states[name] = DelayedState()
            layer.forward = forward_of(layer, states[name])
    return states


@contextlib.contextmanager
def updates_after_steps(states):
    def update(*_):
        for state in states.values():
            state.update()

    hook = register_optimizer_step_post_hook(update)
    try:
        yield
    finally:
        hook.remove()


def train(model, batches):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    losses = []
    for inputs, targets in batches:
        logits = model(input_ids=inputs).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def losses_of_torch(folder, batches, recipe):
    model = transformers.LlamaForCausalLM.from_pretrained(folder / "theirs")
    states = convert_to_delayed(model) if recipe == "delayed" else {}
    if recipe and not states:
        convert_model_to_fp8_ao(model, config=emulated(recipe))
    plain = model.forward

    def forward(*args, **kwargs):
        with torch.autocast("cpu", torch.bfloat16):
            return plain(*args, **kwargs)

    model.forward = forward
    layers = {name for name, module in model.named_modules() if isinstance(module, Float8Linear)} | set(states)
    with updates_after_steps(states):
        return train(model, batches), layers


def compare(binary, folder, recipe):
    torch.manual_seed(7)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA)).save_pretrained(folder / "theirs")
    batches = models.write_data(folder, "LlamaForCausalLM")
    more = f", filter: [], amax_compute_algo: max, margin: {DELAYED['margin']}, " \
           f"amax_history_len: {DELAYED['length']}" if recipe == "delayed" else ""
    fp8 = f"mixed_precision: fp8, fp8: {{recipe: {recipe}{more}}}" if recipe else "mixed_precision: bf16"
    recipe_text = models.RECIPE.replace("kernels: reference", f"kernels: reference, {fp8}")
    optimizer = re.sub(r"optimizer: \{.*\}", f"optimizer: {{type: sgd, lr: {LR}}}", recipe_text)
    (folder / "job.yaml").write_text(optimizer)
    done = models.accel_run(binary, folder, "job.yaml", "log.every=1 step")
    with autocast_of_linear():
        theirs, layers = losses_of_torch(folder, batches, recipe)
    ours = models.losses_of(folder / "runs/job")
    distances = [abs(a - b) / b for a, b in zip(ours, theirs, strict=True)]
    assert distances[0] < FIRST_LIMIT, distances
    if recipe:
        found = re.search(r"(\d+) of (\d+) linear layers", done.stdout)
        assert found and int(found[1]) == len(layers), (done.stdout, layers)
        first = "" if recipe == "delayed" else "model.layers.0.self_attn.q_proj (the first), "
        assert f"in bf16: {first}lm_head (part of the loss)" in done.stdout, done.stdout
    return max(distances), len(layers)


def main():
    if sys.argv[1:] == ["--write"]:
        GOLDEN.write_text(json.dumps(golden()) + "\n")
        return
    assert json.loads(GOLDEN.read_text()) == golden(), "the golden casts are not torchao's"
    print("casts and delayed scales: those of the unit tests", flush=True)
    binary = Path(sys.argv[1]).resolve()
    for recipe in ("", *RECIPES, "delayed"):
        with tempfile.TemporaryDirectory() as folder:
            worst, layers = compare(binary, Path(folder), recipe)
        assert worst < LIMIT, worst
        print(f"{recipe or 'bf16'}: {layers} layers in fp8, {models.STEPS} losses within {worst:.1e}", flush=True)


if __name__ == "__main__":
    main()
