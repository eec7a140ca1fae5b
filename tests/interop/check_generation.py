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
                          LlamaForCausalLM, OPTConfig, OPTForCausalLM, PreTrainedTokenizerFast, T5Config,
                          T5ForConditionalGeneration, set_seed)

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


def check_folder(binary, tokenizer, folder, model, of_model, generation):
    """Keys of config.json, of which generation_config.json replaces those of a generation config; 1 where tokens differ."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **of_model}))
    (folder / "generation_config.json").unlink()
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    theirs = type(model).from_pretrained(folder)
    wanted = []
    for prompt in PROMPTS:
        ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False).input_ids
        out = theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=16)[0].tolist()
        wanted.append(out[1 if theirs.config.is_encoder_decoder else ids.shape[1]:])
    words = [word for prompt in PROMPTS for word in ("--prompt", prompt)]
    done = subprocess.run([binary, "generate", str(folder), "--json", *words, "--max-new-tokens", "16"], text=True,
                          capture_output=True, check=False)
    found = done.stderr if done.returncode else [json.loads(line)["token_ids"] for line in done.stdout.splitlines()]
    if found != wanted:
        print(f"FAILED: config.json {of_model}, generation_config.json {generation}\n  wanted {wanted}\n  found  {found}")
    return int(found != wanted)


def check_folders(binary, tokenizer, scratch):
    """Where the generation config of a folder is, and the start tokens of an encoder-decoder."""
    set_seed(9)
    t5 = T5ForConditionalGeneration(T5Config(vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                                             pad_token_id=0, eos_token_id=None, decoder_start_token_id=0))
    with torch.no_grad():
        for parameter in t5.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3)
    older = {"num_beams": 3, "no_repeat_ngram_size": 2, "suppress_tokens": [1, 2, 3], "max_length": 20}
    start = {"decoder_start_token_id": 0}
    cases = [(model_of("gpt2"), older, None), (model_of("gpt2"), older, {}), (t5, {**older, **start}, None),
             (t5, {**start, "forced_bos_token_id": 12}, None), (t5, start, {"decoder_start_token_id": 8}),
             (t5, start, {"bos_token_id": 4}), (t5, start, {"bos_token_id": 4, "decoder_start_token_id": 9})]
    return sum(check_folder(binary, tokenizer, Path(scratch) / f"folder{i}", *case) for i, case in enumerate(cases)), len(cases)


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
        of_folders, folders = check_folders(sys.argv[1], tokenizer, scratch)
    failed += of_folders
    print(f"generation: {failed} of {2 * len(KINDS) * len(CASES) + folders} comparisons failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
