#!/usr/bin/env python3
"""Compares `--dtype`, `--quantization` and the cache's type with transformers and bitsandbytes on the CPU.

    check_weight_types.py ACCEL_RUN

Greedy tokens of models with random weights, large enough that tokens differ by more than rounding; where a token differs,
transformers' scores of the two are at most BOUND of the largest apart.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from transformers import BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

import check_generation as generation

PROMPTS = ["def", "jklm", "bcdbcdbc", "uvuvu"]
NEW_TOKENS = 12
# Rounding to bf16 is an error of 2^-9 of each product, to float16 of 2^-12.
BOUNDS = {"fp32": 1e-6, "bf16": 2**-5, "fp16": 2**-8}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
QUANTIZED = {
    "nf4": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
    "{type: nf4, double_quant: true}": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
                                        "bnb_4bit_use_double_quant": True},
    "fp4": {"load_in_4bit": True, "bnb_4bit_quant_type": "fp4"},
    "int8": {"load_in_8bit": True, "llm_int8_threshold": 0.0},
    "{type: nf4, skip_modules: ['*.down_proj']}": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
                                                   "llm_int8_skip_modules": ["down_proj", "lm_head"]},
    "{type: nf4, head: true}": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "llm_int8_skip_modules": []},
    "{type: int8, head: true}": {"load_in_8bit": True, "llm_int8_threshold": 0.0, "llm_int8_skip_modules": []},
}


def wide_llama():
    """Rows of whole blocks: bitsandbytes' AVX-512 kernel takes wrong scales in others."""
    transformers.set_seed(5)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=generation.VOCAB, hidden_size=128, num_hidden_layers=2,
                                         num_attention_heads=4, num_key_value_heads=2, intermediate_size=192,
                                         max_position_embeddings=64, bos_token_id=None, eos_token_id=None))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6)
    return model.eval()


def written(binary, folder, *flags):
    words = [word for prompt in PROMPTS for word in ("--prompt", prompt)]
    done = subprocess.run([binary, "generate", str(folder), "--json", "--max-new-tokens", str(NEW_TOKENS), *words, *flags],
                          text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["token_ids"] for line in done.stdout.splitlines()], done.stderr


def scores_after(model, ids):
    """Quantized models in training mode: in evaluation bitsandbytes computes in bf16 on some processors, and quantizes the
    inputs of int8. They have no dropout."""
    with torch.no_grad():
        return model.train(hasattr(model, "hf_quantizer"))(ids).logits[0, -1].float()


def compare(model, tokenizer, found, bound):
    """The number of tokens that are transformers', and the largest relative distance of others' scores."""
    same, worst = 0, 0.0
    for prompt, tokens in zip(PROMPTS, found, strict=True):
        ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False).input_ids
        for token in tokens:
            scores = scores_after(model, ids)
            best = scores.argmax().item()
            same += best == token
            worst = max(worst, ((scores[best] - scores[token]) / scores.abs().max()).item())
            ids = torch.cat([ids, torch.tensor([[token]])], 1)
    assert worst <= bound, (worst, bound)
    return same, worst


def report(name, model, tokenizer, found, bound):
    same, worst = compare(model, tokenizer, found, bound)
    total = sum(len(tokens) for tokens in found)
    print(f"{name}: {same} of {total} tokens, others' scores within {worst:.1e}, limit {bound:.1e}", flush=True)


def cast_layers(model, type_):
    """diffusers' and Accelerate's layerwise casting: linear weights without the head in another type."""
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.Linear) and name != "lm_head":
            layer.weight.data = layer.weight.data.to(type_).to(torch.float32)
    return model


def check_dtypes(binary, scratch, tokenizer):
    for kind in generation.KINDS:
        folder = scratch / kind
        generation.model_of(kind).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        for name, dtype in DTYPES.items():
            model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
            found, errors = written(binary, folder, "--dtype", name)
            assert f"weights: in {name}, " in errors, errors
            report(f"{kind} in {name}", model, tokenizer, found, BOUNDS[name])
        narrow = scratch / f"{kind}-bf16"
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
        model.save_pretrained(narrow)
        tokenizer.save_pretrained(narrow)
        assert written(binary, narrow, "--dtype", "bf16")[0] == written(binary, folder, "--dtype", "bf16")[0]


def main():
    binary = Path(sys.argv[1]).resolve()
    tokenizer = generation.tokenizer_of()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        check_dtypes(binary, scratch, tokenizer)
        folder = scratch / "wide"
        wide_llama().save_pretrained(folder)
        tokenizer.save_pretrained(folder)

        def load(**more):
            return LlamaForCausalLM.from_pretrained(folder, **{"dtype": torch.float32, **more})

        whole = load()
        for section, arguments in QUANTIZED.items():
            found, errors = written(binary, folder, "--quantization", section)
            assert " linear layers in " in errors, errors
            model = load(quantization_config=BitsAndBytesConfig(**arguments), device_map="cpu")
            report(section, model, tokenizer, found, 1e-4)
            assert compare(whole, tokenizer, found, 1)[0] < len(PROMPTS) * NEW_TOKENS, "quantization changes nothing"
            if "head" in section:
                quantized = scratch / arguments.get("bnb_4bit_quant_type", "int8")
                model.save_pretrained(quantized)
                tokenizer.save_pretrained(quantized)
                assert written(binary, quantized)[0] == found, "a folder with a quantized head has other tokens"
        found, _ = written(binary, folder, "--quantization", "nf4", "--dtype", "bf16")
        model = load(quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4",
                                                            bnb_4bit_compute_dtype=torch.bfloat16),
                     dtype=torch.bfloat16, device_map="cpu")
        report("nf4 in bf16", model, tokenizer, found, BOUNDS["bf16"])
        for section, type_ in (("fp8_e4m3", torch.float8_e4m3fn), ("bf16", torch.bfloat16)):
            found, _ = written(binary, folder, "--quantization", section)
            report(f"layerwise casting to {section}", cast_layers(load(), type_), tokenizer, found, 1e-5)
        for cache, bound in (("fp32", 1e-5), ("bf16", 2**-6), ("int8", 2**-6)):
            found, errors = written(binary, folder, "--cache-dtype", cache, "--batch-size", "3", "--prefill-chunk", "2")
            assert f"key-value cache: {cache}, " in errors, errors
            report(f"a cache in {cache}", whole, tokenizer, found, bound)


if __name__ == "__main__":
    main()
