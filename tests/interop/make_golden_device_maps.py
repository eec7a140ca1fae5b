#!/usr/bin/env python3
"""Records device maps of Accelerate for models of transformers on the meta device.   make_golden_device_maps.py [--check]

golden/device_maps.json has the trees of modules with their bytes, and cases with the limits, the options and the
answers of get_balanced_memory() and infer_auto_device_map(). --check compares it with what Accelerate answers now.
"""

import json
import logging
import sys
import warnings
from pathlib import Path

import torch
from accelerate import infer_auto_device_map, init_empty_weights
from accelerate.utils.modeling import compute_module_sizes, find_tied_parameters, get_balanced_memory
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM

GOLDEN = Path(__file__).resolve().parent / "golden/device_maps.json"
# Name: (class, type of the config, options). Sizes are those of no published model.
MODELS = {
    "llama": (AutoModelForCausalLM, "llama", {"vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 5,
                                              "num_attention_heads": 8, "num_key_value_heads": 2,
                                              "intermediate_size": 224}),
    "tied llama": (AutoModelForCausalLM, "llama", {"vocab_size": 3000, "hidden_size": 48, "num_hidden_layers": 3,
                                                   "num_attention_heads": 4, "intermediate_size": 96,
                                                   "tie_word_embeddings": True}),
    "gpt2": (AutoModelForCausalLM, "gpt2", {"vocab_size": 700, "n_positions": 96, "n_embd": 40, "n_layer": 4,
                                            "n_head": 5}),
    "bert": (AutoModelForMaskedLM, "bert", {"vocab_size": 500, "hidden_size": 32, "num_hidden_layers": 3,
                                            "num_attention_heads": 4, "intermediate_size": 100}),
    "t5": (AutoModelForSeq2SeqLM, "t5", {"vocab_size": 400, "d_model": 32, "d_kv": 8, "d_ff": 72, "num_layers": 2,
                                         "num_heads": 4}),
    "mixtral": (AutoModelForCausalLM, "mixtral", {"vocab_size": 600, "hidden_size": 32, "num_hidden_layers": 2,
                                                  "num_attention_heads": 4, "num_key_value_heads": 2,
                                                  "intermediate_size": 56, "num_local_experts": 3}),
    "opt": (AutoModelForCausalLM, "opt", {"vocab_size": 900, "hidden_size": 48, "word_embed_proj_dim": 24,
                                          "num_hidden_layers": 3, "num_attention_heads": 4, "ffn_dim": 100}),
    "vit": (AutoModel, "vit", {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
                               "intermediate_size": 96, "image_size": 64}),
    "resnet": (AutoModel, "resnet", {"embedding_size": 16, "hidden_sizes": [16, 32, 48], "depths": [1, 2, 1]}),
    "gemma": (AutoModelForCausalLM, "gemma", {"vocab_size": 2000, "hidden_size": 32, "num_hidden_layers": 3,
                                              "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
                                              "intermediate_size": 128}),
}
# Limits are shares of the model's bytes in percent. Model, kind, limits, and options that are not the default.
CASES = [
    ("llama", "sequential", {"0": 40, "cpu": 50}, {}),
    ("llama", "sequential", {"0": 70, "1": 20, "cpu": 60}, {}),
    ("llama", "auto", {"0": 80, "1": 80, "cpu": 100}, {}),
    ("llama", "auto", {"0": 60, "1": 60, "2": 60, "cpu": 100}, {"dtype": "bfloat16"}),
    ("llama", "balanced_low_0", {"0": 90, "1": 55, "2": 50, "cpu": 100}, {}),
    ("llama", "sequential", {"cpu": 45}, {}),
    ("llama", "sequential", {"cpu": 30}, {"whole": True}),
    ("llama", "sequential", {"0": 12, "cpu": 50}, {"fallback_allocation": True}),
    ("llama", "sequential", {"0": 45, "cpu": 10, "disk": 1}, {"offload_buffers": True}),
    ("tied llama", "sequential", {"0": 50, "1": 90, "cpu": 100}, {}),
    ("tied llama", "sequential", {"cpu": 130}, {}),
    ("tied llama", "sequential", {"cpu": 95}, {}),
    ("tied llama", "auto", {"0": 95, "1": 95, "cpu": 100}, {}),
    ("tied llama", "balanced_low_0", {"0": 100, "1": 100, "cpu": 10}, {}),
    ("gpt2", "auto", {"0": 50, "1": 40, "2": 40}, {}),
    ("gpt2", "sequential", {"0": 35, "cpu": 70}, {"split": True}),
    ("gpt2", "sequential", {"0": 60, "1": 5, "cpu": 40}, {}),
    ("bert", "auto", {"0": 60, "1": 60, "cpu": 50}, {}),
    ("bert", "sequential", {"0": 15, "1": 40, "cpu": 60}, {"split": True}),
    ("t5", "auto", {"0": 70, "1": 70, "cpu": 100}, {}),
    ("t5", "sequential", {"0": 65, "cpu": 80}, {}),
    ("t5", "sequential", {"cpu": 60}, {"split": True}),
    ("mixtral", "auto", {"0": 80, "1": 90, "cpu": 80}, {}),
    ("mixtral", "sequential", {"0": 50, "cpu": 70}, {"split": True}),
    ("opt", "sequential", {"0": 45, "1": 70, "cpu": 100}, {}),
    ("opt", "balanced_low_0", {"0": 70, "1": 60, "2": 60, "cpu": 100}, {"dtype": "float16"}),
    ("vit", "auto", {"0": 50, "1": 70, "cpu": 100}, {}),
    ("vit", "sequential", {"0": 30, "cpu": 60}, {"fallback_allocation": True}),
    ("resnet", "sequential", {"0": 60, "1": 50, "cpu": 90}, {}),
    ("resnet", "auto", {"0": 60, "1": 70, "2": 70}, {"split": True}),
    ("gemma", "auto", {"0": 90, "1": 90, "cpu": 80}, {}),
    ("gemma", "sequential", {"0": 40, "cpu": 95}, {"fallback_allocation": True}),
]


def model_of(name):
    make, kind, options = MODELS[name]
    config = AutoConfig.for_model(kind, **options)
    if "tie_word_embeddings" in options:
        config.tie_word_embeddings = options["tie_word_embeddings"]
    with init_empty_weights():
        model = make.from_config(config)
    model.tie_weights()
    return model


def tree_of(module, sizes, prefix=""):
    """[class, [[parameter, bytes]], [[buffer, bytes]], [[child, tree]]]; bytes of an alias are null."""
    def tensors(items):
        return [[name, sizes[prefix + name] if prefix + name in sizes else None] for name, _ in items]
    return [type(module).__name__, tensors(module.named_parameters(recurse=False)),
            tensors(module.named_buffers(recurse=False)),
            [[name, tree_of(child, sizes, f"{prefix}{name}.")] for name, child in module.named_children()]]


def device_of(name):
    return int(name) if name.isdigit() else name


def answer(case):
    name, kind, shares, options = case
    model = model_of(name)
    dtype = getattr(torch, options["dtype"]) if "dtype" in options else None
    sizes = dict(compute_module_sizes(model, dtype=dtype))
    no_split = [] if options.get("split") else sorted(model._no_split_modules or [])
    limits = {device_of(device): sizes[""] * share // 100 for device, share in shares.items()}
    used = dict(limits)
    if kind != "sequential":
        used = get_balanced_memory(model, max_memory=used, no_split_module_classes=no_split, dtype=dtype,
                                   low_zero=kind == "balanced_low_0")
    chosen = {key: options[key] for key in ("fallback_allocation", "offload_buffers") if key in options}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = infer_auto_device_map(model, max_memory=dict(used), no_split_module_classes=no_split, dtype=dtype,
                                      clean_result=not options.get("whole"), **chosen)
    misplaced = [int(str(item.message).split("requires ")[1].split()[0]) for item in caught
                 if "bytes of buffer" in str(item.message)]
    return {"name": f"{name}, {kind}, {shares}, {options}", "kind": kind,
            "tree": tree_of(model, sizes), "tied": sorted(find_tied_parameters(model)), "no_split": no_split,
            "limits": {str(device): size for device, size in limits.items()},
            "options": {**chosen, "clean_result": not options.get("whole")},
            "memory": {str(device): size for device, size in used.items()},
            "map": {key: str(device) for key, device in sorted(found.items())},
            "misplaced_buffers": misplaced[0] if misplaced else 0}


def main():
    logging.disable(logging.CRITICAL)
    cases = [answer(case) for case in CASES]
    text = "[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n"
    if "--check" not in sys.argv:
        GOLDEN.write_text(text, encoding="utf-8")
        print(f"{GOLDEN}: {len(cases)} cases")
        return 0
    recorded = json.loads(GOLDEN.read_text(encoding="utf-8"))
    wrong = [case["name"] for case, old in zip(cases, recorded, strict=True) if case != old]
    for name in wrong:
        print(f"Accelerate places otherwise: {name}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
