"""Compares quantized weights and QLoRA with transformers, peft and bitsandbytes on the CPU.

    python tests/interop/check_quantized.py ACCEL_RUN [CASE...]
"""

import os
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import peft
import safetensors.torch
import torch
import transformers

import check_hf_models as models

models.STEPS = 50
models.RECIPE = models.RECIPE.replace("until: 20 steps", "until: 50 steps")

# Rows of whole blocks: bitsandbytes' AVX-512 kernel (0.50.2) takes wrong scales in rows of 16, 32, 48, 80 and so on.
LLAMA = {**models.LLAMA, "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2}
GPT2 = {**models.SMALL, "n_embd": 64, "n_layer": 2}

# The model and its sizes, our section, and the arguments of BitsAndBytesConfig.
CASES = {
    "nf4": ("Llama", LLAMA, "type: nf4", {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}),
    "nf4 double": ("Llama", LLAMA, "type: nf4, double_quant: true", {
        "load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}),
    "fp4": ("Llama", LLAMA, "type: fp4", {"load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}),
    "int8": ("Llama", LLAMA, "type: int8", {"load_in_8bit": True, "llm_int8_threshold": 0.0}),
    "gpt2 nf4": ("GPT2", GPT2, "type: nf4", {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}),
    "nf4 in bf16": ("Llama", LLAMA, "type: nf4, compute_dtype: bf16", {
        "load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": torch.bfloat16}),
}
TARGETS = {"Llama": (["q_proj", "v_proj", "down_proj"], "LlamaForCausalLM", "LlamaConfig"),
           "GPT2": (["c_attn", "c_fc"], "GPT2LMHeadModel", "GPT2Config")}
LIMIT = 1e-3


def quantized(class_name, folder, arguments):
    return getattr(transformers, class_name).from_pretrained(
        folder, quantization_config=transformers.BitsAndBytesConfig(**arguments), dtype=torch.float32, device_map="cpu")


def logits(model, probe):
    """In training mode: in evaluation bitsandbytes computes in bf16 on processors with AVX512_BF16, whatever the
    compute type, and quantizes the inputs of layers in 8 bits. The models have no dropout."""
    with torch.no_grad():
        return models.logits_of(model.train(), probe)


def close_losses(run, theirs, batches):
    losses, expected = models.losses_of(run), models.train(theirs, batches)
    worst = max(abs(a - b) / b for a, b in zip(losses, expected, strict=True))
    assert worst < LIMIT, (worst, losses, expected)
    return worst


def same_bytes(ours, theirs):
    """The codes and scales of a checkpoint are those of bitsandbytes' state dict; returns their number."""
    compared = 0
    for name, tensor in theirs.items():
        if name.endswith((".quant_map", ".nested_quant_map", ".weight_format")) or ".quant_state." in name:
            continue
        own = name.removesuffix("SCB") + "weight.absmax" if name.endswith(".SCB") else name
        found = ours[own]
        assert found.dtype == tensor.dtype and torch.equal(found.flatten(), tensor.flatten()), name
        compared += own.endswith(".absmax")
    assert compared > 0, "nothing is quantized"
    return compared


def check(binary, folder, name):
    kind, sizes, section, arguments = CASES[name]
    targets, class_name, config_class = TARGETS[kind]
    torch.manual_seed(7)
    getattr(transformers, class_name)(getattr(transformers, config_class)(**sizes)).save_pretrained(folder / "theirs")
    base = quantized(class_name, folder / "theirs", arguments)
    base.save_pretrained(folder / "quantized")
    stored = safetensors.torch.load_file(folder / "quantized/model.safetensors")
    theirs = peft.get_peft_model(base, peft.LoraConfig(r=4, lora_alpha=6, target_modules=targets,
                                                       init_lora_weights=False))
    theirs.save_pretrained(folder / "adapter")
    batches = models.write_data(folder, class_name)
    more = f"quantization: {{{section}}}, lora: {{adapter: adapter}}}}"
    (folder / "job.yaml").write_text(models.RECIPE.replace("weights: theirs}", f"weights: theirs, {more}"))
    models.accel_run(binary, folder, "job.yaml")
    count = same_bytes(safetensors.torch.load_file(next(folder.glob("runs/job/checkpoints/*/model.safetensors"))), stored)

    # The folder of quantized weights, whose config says how they are.
    read = models.RECIPE.replace("weights: theirs}", "weights: quantized, lora: {adapter: adapter}}")
    (folder / "read.yaml").write_text(read.replace("name: job", "name: read"))
    models.accel_run(binary, folder, "read.yaml")
    again = max(abs(a - b) / b for a, b in zip(models.losses_of(folder / "runs/read"),
                                               models.losses_of(folder / "runs/job"), strict=True))
    assert again == 0, again

    worst = close_losses(folder / "runs/job", theirs, batches)
    models.accel_run(binary, folder, "export", "runs/job", "--to", "adapted")
    ours = peft.PeftModel.from_pretrained(quantized(class_name, folder / "theirs", arguments), folder / "adapted")
    probe = batches[0][0]
    expected = logits(theirs, probe)
    # Rounding to bf16 is an error of up to 2^-9 of each product's inputs and output.
    limit = 2**-7 * expected.abs().max().item() if "bf16" in name else 1e-5
    found = logits(ours, probe)
    distance = (found - expected).abs().max().item()
    assert distance < limit, (distance, limit)
    models.accel_run(binary, folder, "export", "runs/job", "--to", "merged", "--merge")
    apart = (logits(models.load(class_name, folder / "merged"), probe) - found).abs().max().item()
    assert apart < limit, (apart, limit)
    print(f"{name}: {count} weights with bitsandbytes' bytes, {models.STEPS} losses within {worst:.1e}, "
          f"adapter within {distance:.1e}, merged within {apart:.1e}, limit {limit:.1e}", flush=True)


def main():
    binary = Path(sys.argv[1]).resolve()
    for name in sys.argv[2:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            check(binary, Path(folder), name)


if __name__ == "__main__":
    main()
