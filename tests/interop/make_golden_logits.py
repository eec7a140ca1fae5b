#!/usr/bin/env python3
"""Writes golden/logits.json: scores after the logits processors of transformers.   make_golden_logits.py [--check]

A case has a generation config, a sequence with the length of its prompt, scores, and the scores after
the processors that generate() makes of the config, null for -inf.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

FILE = Path(__file__).resolve().parent / "golden/logits.json"
VOCAB = 24
CONFIGS = [
    {},
    {"do_sample": True, "top_k": 0},
    {"do_sample": True, "temperature": 0.7, "top_k": 5},
    {"do_sample": True, "top_k": 5, "top_p": 0.8},
    {"do_sample": True, "top_k": 0, "top_p": 0.35, "temperature": 1.6},
    {"do_sample": True, "top_k": 0, "min_p": 0.2},
    {"do_sample": True, "top_k": 0, "typical_p": 0.4},
    {"do_sample": True, "top_k": 0, "typical_p": 0.9},
    {"do_sample": True, "top_k": 0, "top_h": 0.5},
    {"do_sample": True, "top_k": 0, "epsilon_cutoff": 0.03},
    {"do_sample": True, "top_k": 0, "eta_cutoff": 0.06},
    {"do_sample": True, "temperature": 0.8, "top_k": 9, "top_p": 0.9, "min_p": 0.05, "typical_p": 0.95,
     "repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
    {"repetition_penalty": 1.7},
    {"repetition_penalty": 0.6},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 3},
    {"sequence_bias": [[[3], 2.5], [[4, 5], -3.0], [[2, 7], 4.0], [[1, 2, 7], 1.5], [[7], -1.0]]},
    {"bad_words_ids": [[3], [2, 9], [20], [8, 9, 10]], "eos_token_id": 20},
    {"min_length": 9, "eos_token_id": [20, 21]},
    {"min_length": 7, "eos_token_id": [20, 21]},
    {"min_new_tokens": 4, "eos_token_id": 20},
    {"min_new_tokens": 3, "eos_token_id": 20},
    {"forced_eos_token_id": 20, "max_length": 8},
    {"forced_eos_token_id": 20, "max_length": 9},
    {"exponential_decay_length_penalty": [1, 1.4], "eos_token_id": [20, 21]},
    {"exponential_decay_length_penalty": [3, 1.4], "eos_token_id": [20, 21]},
    {"suppress_tokens": [1, 2, 3]},
    {"begin_suppress_tokens": [1, 2, 3]},
    {"repetition_penalty": 1.2, "renormalize_logits": True},
    {"remove_invalid_values": True},
    {"do_sample": True, "num_beams": 2, "top_k": 1},
    {"do_sample": True, "num_beams": 3, "top_k": 2, "eos_token_id": [20, 21]},
    {"do_sample": True, "num_beams": 2, "top_k": 0, "top_p": 0.05, "eos_token_id": [20, 21]},
    {"do_sample": True, "num_beams": 2, "top_k": 0, "min_p": 0.95},
    {"do_sample": True, "num_beams": 2, "top_k": 0, "typical_p": 0.05, "eos_token_id": [20, 21]},
    {"do_sample": True, "num_beams": 2, "top_k": 0, "epsilon_cutoff": 0.9, "eos_token_id": 20},
    {"do_sample": True, "num_beams": 2, "top_k": 0, "eta_cutoff": 0.9},
]
SEQUENCES = [([1, 2, 3, 1, 2, 7, 2], 4), ([1, 2, 3, 1, 2], 5), ([6], 1)]


def cases():
    model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCAB, hidden_size=8, num_hidden_layers=1, num_attention_heads=1,
                                         intermediate_size=8))
    generator = torch.Generator().manual_seed(7)
    for config in CONFIGS:
        for tokens, prompt in SEQUENCES:
            scores = (torch.randn(1, VOCAB, generator=generator) * 2).float()
            own = GenerationConfig(**{"repetition_penalty": 1.0, **config})
            for key, value in GenerationConfig._get_default_generation_params().items():
                if getattr(own, key, None) is None:
                    setattr(own, key, value)
            ends = config.get("eos_token_id")
            ends = None if ends is None else torch.tensor(ends if isinstance(ends, list) else [ends])
            own._eos_token_tensor = ends
            processors = model._get_logits_processor(own, input_ids_seq_length=prompt, device="cpu")
            found = processors(torch.tensor([tokens]), scores.clone())[0]
            yield {"config": config, "tokens": tokens, "prompt": prompt, "scores": scores[0].tolist(),
                   "found": [None if x == float("-inf") else x for x in found.tolist()]}


def main():
    text = "[\n" + ",\n".join(json.dumps(case) for case in cases()) + "\n]\n"
    if "--check" not in sys.argv:
        FILE.write_text(text)
        return 0
    if FILE.read_text() == text:
        return 0
    print(f"{FILE} differs from the scores of this transformers")
    return 1


if __name__ == "__main__":
    sys.exit(main())
