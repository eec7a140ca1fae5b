#!/usr/bin/env python3
"""Compares the tokens of `generate` with those of transformers' generate().   check_generation.py ACCEL_RUN

Models have random weights, large enough that tokens differ by more than rounding.
"""

import json
import string
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models
from transformers import (GenerationConfig, GPT2Config, GPT2LMHeadModel, GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig,
                          LlamaForCausalLM, OPTConfig, OPTForCausalLM, PreTrainedTokenizerFast, set_seed)

VOCAB = 64  # of CHARACTERS
CHARACTERS = string.ascii_letters + string.digits + " ."
KINDS = ("gpt2", "llama", "gpt_neox", "opt")
PROMPTS = ["def", "j", "bcdbcdbc", "uvuvu"]
CASES = {
    "greedy": {},
    "an end token": {"eos_token_id": [7, 9, 30, 41]},
    "max_length": {"max_length": 12},
    "repetition_penalty": {"repetition_penalty": 1.6},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 2},
    "sequence_bias": {"sequence_bias": [[[5], 3.0], [[5, 6], 8.0]]},
    "bad words": {"bad_words_ids": [[5], [6], [33]], "suppress_tokens": [12], "begin_suppress_tokens": [40]},
    "min_new_tokens": {"eos_token_id": [7, 9, 30, 41], "min_new_tokens": 6},
    "forced_eos_token_id": {"max_length": 10, "forced_eos_token_id": 30, "eos_token_id": 30},
    "exponential_decay_length_penalty": {"eos_token_id": [7, 9], "exponential_decay_length_penalty": [2, 1.3]},
    "stop_strings": {"stop_strings": ["f", "Sb", "E"]},
    "beams": {"num_beams": 4, "eos_token_id": [7, 9, 30, 41]},
    "beams, early_stopping": {"num_beams": 3, "eos_token_id": [7, 9, 30, 41], "early_stopping": True},
    "beams, never": {"num_beams": 3, "eos_token_id": [7, 9], "early_stopping": "never", "length_penalty": 1.5},
    "beams, short": {"num_beams": 5, "eos_token_id": [7, 9, 30], "length_penalty": -1.0},
    "beams, processors": {"num_beams": 3, "eos_token_id": [30], "repetition_penalty": 1.4, "no_repeat_ngram_size": 2},
    "beams, stop_strings": {"num_beams": 2, "stop_strings": ["f", "3"]},
}


def model_of(kind):
    set_seed(5)
    if kind == "gpt2":
        model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_positions=64, n_embd=32, n_layer=2, n_head=2,
                                           bos_token_id=None, eos_token_id=None))
    elif kind == "gpt_neox":
        model = GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2,
                                                 num_attention_heads=2, intermediate_size=48,
                                                 max_position_embeddings=64, bos_token_id=None, eos_token_id=None))
    elif kind == "opt":
        model = OPTForCausalLM(OPTConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                         ffn_dim=48, max_position_embeddings=64, word_embed_proj_dim=24,
                                         bos_token_id=None, eos_token_id=None))
    else:
        model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2,
                                             num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
                                             max_position_embeddings=64, bos_token_id=None, eos_token_id=None))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)
    return model.eval()


def tokenizer_of():
    characters = Tokenizer(models.BPE({character: i for i, character in enumerate(CHARACTERS)}, merges=[]))
    characters.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=characters, clean_up_tokenization_spaces=False)


def wanted_of(model, tokenizer, prompt, case):
    ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False).input_ids
    limit = {} if "max_length" in case else {"max_new_tokens": 16}
    config = GenerationConfig(**{"pad_token_id": 0, **limit, **case})
    out = model.generate(ids, generation_config=config, tokenizer=tokenizer, attention_mask=torch.ones_like(ids))
    found = out[0, ids.shape[1]:].tolist()
    ends = case.get("eos_token_id", [])
    ends = ends if isinstance(ends, list) else [ends]
    for i, token in enumerate(found):
        if token in ends:
            return found[:i]
    return found


def found_of(binary, folder, case, *flags):
    (folder / "generation_config.json").write_text(json.dumps(case))
    words = [word for prompt in PROMPTS for word in ("--prompt", prompt)]
    limit = [] if "max_length" in case else ["--max-new-tokens", "16"]
    done = subprocess.run([binary, "generate", str(folder), "--json", *words, *limit, *flags], text=True,
                          capture_output=True, check=False)
    if done.returncode:
        return done.stderr
    return [json.loads(line)["token_ids"] for line in done.stdout.splitlines()]


def main():
    failed = 0
    tokenizer = tokenizer_of()
    with tempfile.TemporaryDirectory() as scratch:
        for kind in KINDS:
            folder = Path(scratch) / kind
            model = model_of(kind)
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            model.generation_config = GenerationConfig()
            for name, case in CASES.items():
                wanted = [wanted_of(model, tokenizer, prompt, case) for prompt in PROMPTS]
                for flags in (["--batch-size", "1"], ["--batch-size", "3", "--prefill-chunk", "2"]):
                    found = found_of(sys.argv[1], folder, case, *flags)
                    if found != wanted:
                        failed += 1
                        print(f"FAILED: {kind}, {name}, {' '.join(flags)}\n  wanted {wanted}\n  found  {found}")
    print(f"generation: {failed} of {2 * len(KINDS) * len(CASES)} comparisons failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
