#!/usr/bin/env python3
"""Offload folders, both ways: Accelerate reads those of accel-run, and accel-run those of Accelerate.

    check_offload.py ACCEL_RUN
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from accelerate import disk_offload, load_checkpoint_and_dispatch
from accelerate.utils import OffloadedWeightsLoader, offload_state_dict

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"vocab_size": 800, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 80, "max_position_embeddings": 64, "bos_token_id": 0,
         "eos_token_id": 1}
IDS = torch.arange(20).view(2, 10)


def llama(seed, **options):
    torch.manual_seed(seed)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SIZES, **options})).eval()


def say(binary, scratch, folder, *flags):
    """Exit code, token ids and messages of generate."""
    done = subprocess.run([binary, "generate", folder, "--prompt", "the cat", "--max-new-tokens", "12", "--json", *flags],
                          cwd=scratch, text=True, capture_output=True, check=False)
    return done.returncode, json.loads(done.stdout)["token_ids"] if done.returncode == 0 else None, done.stderr


def save(model, scratch, name, **options):
    model.save_pretrained(scratch / name, **options)
    shutil.copy(ROOT / "tests/unit/text/golden/llama3/tokenizer.json", scratch / name / "tokenizer.json")


def check(name, holds, shown=""):
    print(("ok   " if holds else "FAIL ") + name, "" if holds else shown)
    return holds


def check_llama(binary, scratch, dtype, tied):
    label = f"{dtype}, {'tied' if tied else 'untied'}: "
    model = llama(0, tie_word_embeddings=tied).to(dtype)
    name = f"{str(dtype)[6:]}-{tied}"
    save(model, scratch, name)
    code, plain, errors = say(binary, scratch, name)
    ok = check(label + "tokens in memory", code == 0, errors)
    words = ["--device-map", "all.json"]
    code, found, errors = say(binary, scratch, name, *words, "--offload", f"ours-{name}")
    ok &= check(label + "tokens are equal with a new folder", found == plain, errors)
    loader = OffloadedWeightsLoader(save_folder=scratch / f"ours-{name}")
    state = model.state_dict()
    ok &= check(label + "Accelerate reads all weights of it", set(loader) == set(state) and
                all(loader[key].dtype == value.dtype and torch.equal(loader[key], value) for key, value in state.items()),
                sorted(set(loader) ^ set(state)))
    other = llama(1, tie_word_embeddings=tied).to(dtype)
    disk_offload(other, scratch / f"ours-{name}", execution_device="cpu")
    ok &= check(label + "disk_offload computes with it", torch.equal(other(IDS).logits, model(IDS).logits))
    offload_state_dict(scratch / f"theirs-{name}", model.state_dict())
    code, found, errors = say(binary, scratch, name, *words, "--offload", f"theirs-{name}")
    return ok & check(label + "tokens are equal with offload_state_dict()'s", found == plain, errors)


def check_dispatched(binary, scratch):
    """The folder of load_checkpoint_and_dispatch, and the index that dispatch_model makes of safetensors."""
    model = llama(0, tie_word_embeddings=False)
    save(model, scratch, "dispatched")
    (scratch / "bin").mkdir()
    torch.save(model.state_dict(), scratch / "bin/pytorch_model.bin")
    load_checkpoint_and_dispatch(llama(1, tie_word_embeddings=False), str(scratch / "bin"), device_map={"": "disk"},
                                 offload_folder=str(scratch / "folder"))
    _, plain, _ = say(binary, scratch, "dispatched")
    words = ["--device-map", "all.json", "--offload"]
    _, found, errors = say(binary, scratch, "dispatched", *words, "folder")
    ok = check("tokens are equal with load_checkpoint_and_dispatch()'s", found == plain is not None, errors)
    file = str(scratch / "dispatched/model.safetensors")
    index = {key: {"safetensors_file": file, "weight_name": key, "dtype": "float32"} for key in model.state_dict()}
    (scratch / "named").mkdir()
    (scratch / "named/index.json").write_text(json.dumps(index))
    loader = OffloadedWeightsLoader(save_folder=scratch / "named")
    ok &= check("Accelerate reads an index of safetensors", torch.equal(loader["lm_head.weight"], model.lm_head.weight))
    _, found, errors = say(binary, scratch, "dispatched", *words, "named")
    return ok & check("tokens are equal with it", found == plain is not None, errors)


def check_gpt2(binary, scratch):
    """Matrices that a folder stores transposed."""
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=800, n_positions=64, n_embd=48, n_layer=3,
                                                                 n_head=4, bos_token_id=0, eos_token_id=1)).eval()
    save(model, scratch, "gpt2")
    words = ["--device-map", "all.json", "--offload"]
    _, plain, _ = say(binary, scratch, "gpt2")
    ok = check("gpt2: tokens are equal with a new folder", say(binary, scratch, "gpt2", *words, "own")[1] == plain is not None)
    code, found, errors = say(binary, scratch, "gpt2", *words, "own")
    ok &= check("gpt2: and with that folder again", found == plain, errors)
    offload_state_dict(scratch / "theirs", model.state_dict())
    code, _, errors = say(binary, scratch, "gpt2", *words, "theirs")
    return ok & check("gpt2: Accelerate's transposed matrices are refused", code == 3 and
                      "of the offload folder 'theirs' " in errors, errors)


def main(binary):
    ok = True
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "all.json").write_text('{"": "disk"}')
        for dtype, tied in ((torch.float32, False), (torch.float32, True)):
            ok &= check_llama(binary, scratch, dtype, tied)
        ok &= check_dispatched(binary, scratch)
        ok &= check_gpt2(binary, scratch)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
