#!/usr/bin/env python3
"""accel-run reads tokenizer folders as transformers' AutoTokenizer does: the class that the folder gets, tokens that
are named outside tokenizer.json, and the keys of tokenizer_config.json. Each folder gives the same ids, special
tokens and decoded texts, or is refused or warned of by name.

    check_tokenizer_folders.py ACCEL_RUN [NAME]
    check_tokenizer_folders.py --write

--write instead writes what the unit tests compare with.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
from transformers import AutoTokenizer, logging  # noqa: E402

logging.set_verbosity_error()
ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/unit/text/golden"
TEXTS = [
    "Hello, world!", "", " ", "  two  spaces   three ", "\n\nline\n\nbreaks\n", "don't WE'RE they'd've", "Crème BRÛLÉE Ångström",
    "你好，世界。日本語", "👩‍👩‍👧‍👦 👍🏽", "<s>a</s> <mask> [MASK][SEP] [CLS]x", "a <s> b </s>  c", "Hello Words Word's sWord",
    "x <extra_id_0>  y<extra_id_99>", "<|endoftext|>hi <|endoftext|> hi", "<new> other<new2> <NEW>", "▁under▁score  ``q''", "abc ABC",
    "12345 0x1F ½", "e\u0301 A\u030a ﬁ", "a\tb\r\nc", "<pad> [PAD] <unk> [UNK]", "<image>Hello<image>", "the Hello of",
    "x is not , here . ok ? it 's", " leading", "trailing ", "<|im_start|>user", "hello<unk>world",
]
ROLES = ("pad", "bos", "eos", "unk", "mask", "cls", "sep")


def token(content, **flags):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True, **flags}


def added(content, **flags):
    return {"__type": "AddedToken", **token(content, **flags)}


def config(**keys):
    return {"tokenizer_config.json": keys}


def named(tokenizer_class, **keys):
    return config(tokenizer_class=tokenizer_class, **keys)


def typed(model_type, **keys):
    return {"config.json": {"model_type": model_type}, **(config(**keys) if keys else {})}


def edited(**patch):
    """A merge patch of tokenizer.json itself."""
    return {"tokenizer.json": patch}


NO_POST = edited(post_processor=None)
WITH_GAP = edited(added_tokens=[{"id": 0, **token("<|endoftext|>")}, {"id": 900, **token("<new>")}])
WITH_PADDING = edited(padding={"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                               "pad_type_id": 0, "pad_token": "<new>"})


def albert_pieces(source):
    """The tokens that ALBERT needs, in place of the last pieces."""
    pieces = json.loads((GOLDEN / source / "tokenizer.json").read_text())["model"]["vocab"]
    return edited(model={"vocab": [["<pad>", 0.0], ["<unk>", 0.0], ["[CLS]", 0.0], ["[SEP]", 0.0], *pieces[3:-1]]},
                  added_tokens=[])


def vocabulary(source, more=""):
    """The vocabulary files in place of tokenizer.json; `more`: of vocab.txt."""
    model = json.loads((GOLDEN / source / "tokenizer.json").read_text())["model"]
    if model["type"] == "WordPiece":
        words = sorted(model["vocab"], key=model["vocab"].get)
        # Spaces at the end are not of a token.
        return {"tokenizer.json": None, "vocab.txt": "".join(f"{word} \n" for word in words) + more}
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    return {"tokenizer.json": None, "vocab.json": model["vocab"], "merges.txt": "\n".join(["#version: 0.2", *merges, ""])}


# A name, the tokenizer of the unit tests that it starts from, and its files.
CASES = [
    # the class: tokenizer.json as it is
    ("bare", "gpt2", {}),
    ("unknown class", "gpt2", named("StrangeTokenizer")),
    ("backend", "bert", named("PreTrainedTokenizerFast", do_lower_case=False, add_prefix_space=True)),
    ("llama, byte-level", "llama3", named("LlamaTokenizerFast", add_bos_token=False)),
    ("mistral", "llama2", {**named("LlamaTokenizer", legacy=True), "config.json": {"model_type": "mistral"}}),
    ("unknown model", "gpt2", typed("strange")),
    ("llama model", "llama2", typed("llama")),
    # the class rebuilds the pipeline
    ("llama", "llama2", named("LlamaTokenizer")),
    ("llama, legacy", "llama2", named("LlamaTokenizerFast", legacy=True, bos_token="<s>", eos_token="</s>")),
    ("llama, not legacy", "llama2", named("LlamaTokenizer", legacy=False)),
    ("llama, legacy null", "llama2", named("LlamaTokenizer", legacy=None, add_prefix_space=None)),
    ("llama, no prefix", "llama2", named("LlamaTokenizer", add_prefix_space=False)),
    ("llama, bos and eos", "llama2", named("LlamaTokenizer", add_bos_token=False, add_eos_token=True)),
    ("llama, no post-processor", "llama2", {**named("LlamaTokenizer", add_bos_token=True), **NO_POST}),
    ("llama of another model", "bert", named("LlamaTokenizer")),
    ("gpt2", "gpt2", named("GPT2Tokenizer")),
    ("gpt2, prefix", "gpt2", named("GPT2TokenizerFast", add_prefix_space=True)),
    ("gpt2 by its model", "gpt2", typed("gpt2", add_prefix_space=True)),
    ("gpt2, merges ignored", "gpt2", {**named("GPT2Tokenizer"), **edited(model={"ignore_merges": True})}),
    ("gpt2 of llama 3", "llama3", named("GPT2Tokenizer")),
    ("opt", "gpt2", {**named("GPT2Tokenizer", bos_token="</s>", eos_token="</s>", unk_token="</s>", pad_token="<pad>"),
                     "config.json": {"model_type": "opt"}}),
    ("neox", "gpt2", named("GPTNeoXTokenizer", add_bos_token=True)),
    ("neox, prefix", "llama3", named("GPTNeoXTokenizerFast", add_prefix_space=True, eos_token="<|end_of_text|>")),
    ("qwen2", "gpt2", named("Qwen2Tokenizer")),
    ("qwen2 by its model", "llama3", typed("qwen2", tokenizer_class="PreTrainedTokenizerFast", eos_token="<|end_of_text|>")),
    ("qwen2, prefix", "gpt2", named("Qwen2TokenizerFast", add_prefix_space=True, extra_special_tokens=["<|im_start|>"])),
    ("qwen3.5", "gpt2", typed("qwen3_5_text")),
    ("roberta", "odd", named("RobertaTokenizer")),
    ("bart", "gpt2", named("BartTokenizer", add_prefix_space=True, mask_token=added("<mask>", lstrip=True))),
    ("roberta by its model", "gpt2", typed("roberta")),
    ("bert", "bert", named("BertTokenizer")),
    ("bert, cased", "bert", named("BertTokenizerFast", do_lower_case=False)),
    ("bert, accents", "bert", named("BertTokenizer", strip_accents=False)),
    ("bert, cased without accents", "bert", named("BertTokenizer", do_lower_case=False, strip_accents=True)),
    ("bert, chinese", "bert", named("DistilBertTokenizer", tokenize_chinese_chars=False)),
    ("bert, clean", "bert", named("BertTokenizer", clean_up_tokenization_spaces=True, model_max_length=4)),
    ("electra by its model", "bert", typed("electra")),
    ("bert without a mask", "odd", named("BertTokenizer")),
    ("gemma", "llama2", named("GemmaTokenizer")),
    ("gemma, unknown", "llama2", named("GemmaTokenizerFast", bos_token="<s>", eos_token="</s>", unk_token="<unk>")),
    ("t5", "t5", named("T5Tokenizer")),
    ("t5, ten ids", "t5", named("T5TokenizerFast", extra_ids=10)),
    ("t5, own tokens", "t5", named("T5Tokenizer", additional_special_tokens=["<new>"])),
    ("t5, tokens of the map", "t5", {**named("T5Tokenizer"), "special_tokens_map.json": {"additional_special_tokens": ["<new>"]}}),
    ("t5, precompiled", "precompiled", named("T5Tokenizer")),
    ("mt5 by its model", "t5", typed("mt5")),
    ("xlm-roberta", "t5", named("XLMRobertaTokenizer")),
    ("xlm-roberta, precompiled", "precompiled", named("XLMRobertaTokenizerFast", add_prefix_space=False)),
    ("albert", "precompiled", {**named("AlbertTokenizer", do_lower_case=False), **albert_pieces("precompiled")}),
    ("albert, accents", "t5", {**named("AlbertTokenizerFast", keep_accents=True), **albert_pieces("t5")}),
    ("albert without its tokens", "t5", named("AlbertTokenizer")),
    ("clip", "gpt2", named("CLIPTokenizer")),
    ("marian", "t5", named("MarianTokenizer")),
    ("remote code", "gpt2", config(auto_map={"AutoTokenizer": ["code.Own", None]})),
    # the class builds it of a vocabulary
    ("vocabulary of bert", "bert", {**named("BertTokenizer"), **vocabulary("bert")}),
    # Of a repeated token the last id counts.
    ("vocabulary with a repeated word", "bert", {**named("BertTokenizer"), **vocabulary("bert", "the\n")}),
    ("vocabulary of bert, cased", "bert", {**named("DistilBertTokenizer", do_lower_case=False), **vocabulary("bert")}),
    ("vocabulary of electra by its model", "bert", {**typed("electra"), **vocabulary("bert")}),
    ("vocabulary with a map", "bert", {**vocabulary("bert"), **typed("bert"),
                                       "special_tokens_map.json": {"additional_special_tokens": ["<new>"]}}),
    ("vocabulary of gpt2", "gpt2", {**named("GPT2Tokenizer"), **vocabulary("gpt2")}),
    ("vocabulary of gpt2 by its model", "gpt2", {**typed("gpt2", add_prefix_space=True), **vocabulary("gpt2")}),
    ("vocabulary of roberta with new tokens", "gpt2", {**named("RobertaTokenizer"), **vocabulary("gpt2")}),
    ("vocabulary of qwen2", "gpt2", {**typed("qwen2"), **vocabulary("gpt2"),
                                     "added_tokens.json": {"<|im_start|>": 705, "<|im_end|>": 704}}),
    ("vocabulary of neox", "gpt2", {**named("GPTNeoXTokenizer"), **vocabulary("gpt2")}),
    ("vocabulary of a class of SentencePiece", "gpt2", {**named("LlamaTokenizer"), **vocabulary("gpt2")}),
    ("vocabulary without a class", "bert", vocabulary("bert")),
    # tokens outside tokenizer.json
    ("extra", "gpt2", config(extra_special_tokens=["<new>", "Hello"])),
    ("additional", "bert", config(additional_special_tokens=["<new>", added("<new2>", lstrip=True)])),
    ("extra by name", "bert", config(extra_special_tokens={"image_token": "<image>", "other_token": "<new>"})),
    ("model token", "llama2", config(image_token="<image>", audio_token=added("<new>", rstrip=True), bos_token="<s>")),
    ("named, in the vocabulary", "gpt2", config(eos_token="Hello", bos_token="the")),
    ("named, not in the vocabulary", "gpt2", config(pad_token="<pad>", eos_token="<|endoftext|>")),
    ("named, null", "bert", config(pad_token=None, cls_token="[CLS]")),
    ("named with flags", "bert", config(mask_token=added("[MASK]", lstrip=True, rstrip=True))),
    ("decoder", "gpt2", config(added_tokens_decoder={"0": token("<|endoftext|>"), "705": token("<new2>"), "701": token("<new>", lstrip=True)})),
    ("decoder changes flags", "bert", config(added_tokens_decoder={
        "4": token("[MASK]", lstrip=True, rstrip=True), "3": token("[SEP]", special=False, normalized=True)})),
    ("decoder of a class", "llama2", named("LlamaTokenizer", added_tokens_decoder={"1": token("<s>", rstrip=True)})),
    ("decoder, normalized", "bert", config(added_tokens_decoder={"700": token("ABC", special=False, normalized=True)})),
    ("decoder, single word", "t5", config(added_tokens_decoder={"700": token("the", special=False, single_word=True)})),
    ("decoder beside a map", "gpt2", {**config(added_tokens_decoder={}, eos_token="the"), "special_tokens_map.json": {"eos_token": "Hello"}}),
    ("map", "gpt2", {**config(eos_token="the"), "special_tokens_map.json": {"eos_token": token("Hello"), "pad_token": "<new>"}}),
    ("map, extra", "bert", {**config(extra_special_tokens=["<new2>"]), "special_tokens_map.json": {"extra_special_tokens": ["<new>", "<new2>"]}}),
    ("added_tokens.json", "bert", {"added_tokens.json": {"<new2>": 800, "<new>": 700, "ABC": 702},
                                   "special_tokens_map.json": {"additional_special_tokens": ["<new>"]}}),
    ("added_tokens.json of a class", "gpt2", {**named("GPT2Tokenizer"), "added_tokens.json": {"<new>": 701, "the": 3}}),
    ("ids with a gap", "gpt2", WITH_GAP),
    ("padding token", "gpt2", WITH_PADDING),
    # other keys
    ("split special tokens", "bert", config(split_special_tokens=True)),
    ("split special tokens of a class", "llama2", named("LlamaTokenizer", split_special_tokens=True)),
    ("clean", "t5", config(clean_up_tokenization_spaces=True)),
    ("clean, BPE", "gpt2", config(clean_up_tokenization_spaces=True)),
    ("clean, BPE, forced", "gpt2", config(clean_up_tokenization_spaces=True,
                                          clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output=True)),
    ("sides", "bert", config(padding_side="left", truncation_side="left", model_max_length=3)),
]


def merged(value, patch):
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    out = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), change)
    return out


def write_folder(folder, source, files):
    folder.mkdir()
    for name, value in files.items():
        (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))
    file = merged(json.loads((GOLDEN / source / "tokenizer.json").read_text()), files.get("tokenizer.json", {}))
    if file is None:
        (folder / "tokenizer.json").unlink()
    else:
        (folder / "tokenizer.json").write_text(json.dumps(file))


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)


def ours_of(accel_run, folder, texts_file):
    """Ids with and without special tokens, ids of roles and the size, or the error."""
    found = {}
    for name, flags in (("ids", ()), ("plain", ("--plain",))):
        done = run(accel_run, "tokenizer", "encode", folder, "--file", texts_file, "--json-lines", *flags)
        if done.returncode:
            return done.stderr.strip()
        found[name] = [[int(word) for word in line.split()] for line in done.stdout.split("\n")[:-1]]
    shown = run(accel_run, "tokenizer", "inspect", folder).stdout
    found["size"] = int(re.search(r"^tokens +(\d+)", shown, re.MULTILINE)[1])
    found["special"] = {role: int(m[1]) for role in ROLES if (m := re.search(rf"^{role} +(\d+)", shown, re.MULTILINE))}
    return found


def theirs_of(folder):
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        found = {"ids": [tokenizer(text).input_ids for text in TEXTS],
                 "plain": [tokenizer(text, add_special_tokens=False).input_ids for text in TEXTS]}
    except Exception as error:  # of any kind
        return f"{type(error).__name__}: {error}", None
    found["size"] = max([*tokenizer.get_vocab().values()]) + 1
    found["special"] = {role: value for role in ROLES if (value := getattr(tokenizer, f"{role}_token_id")) is not None}
    return found, tokenizer


def decoded_differ(accel_run, folder, tokenizer, rows):
    """The first ids that decode otherwise."""
    for ids in rows:
        if not ids:
            continue
        for skip in (False, True):
            done = run(accel_run, "tokenizer", "decode", folder, *ids, *(["--plain"] if skip else []))
            theirs = tokenizer.decode(ids, skip_special_tokens=skip)
            if done.stdout != theirs + "\n":
                return f"decoded {ids}, skip={skip}: {done.stdout[:-1]!r}, theirs {theirs!r} {done.stderr}"
    return ""


def compare(accel_run, scratch, case):
    name, source, files = case
    folder = scratch / re.sub(r"\W+", "_", name)
    write_folder(folder, source, files)
    ours = ours_of(accel_run, folder, scratch / "texts.jsonl")
    theirs, tokenizer = theirs_of(folder)
    if isinstance(ours, str):
        print(f"{name}: refused: {ours}\n    theirs: {theirs if isinstance(theirs, str) else 'loads'}")
        return "refused" if name in REFUSED or isinstance(theirs, str) else "refused by accel-run alone"
    if name in REFUSED:
        return "taken as the file is"  # with a warning
    if isinstance(theirs, str):
        print(f"{name}: ours loads, theirs: {theirs[:200]}")
        return "theirs fails"
    problems = [f"{key}: {ours[key]}, theirs {theirs[key]}" for key in ("size",) if ours[key] != theirs[key]]
    # Where nothing but the padding names tokens, accel-run finds them by their spelling; a padding token always.
    for role in ROLES:
        a, b = ours["special"].get(role), theirs["special"].get(role)
        if a != b and not (b is None and (role == "pad" or not {*theirs["special"]} - {"pad"})):
            problems.append(f"{role}: {a}, theirs {b}")
    for key in ("ids", "plain"):
        for text, a, b in zip(TEXTS, ours[key], theirs[key], strict=True):
            if a != b:
                problems.append(f"{key} of {text!r}: {a}, theirs {b}")
                break
    problems += [said for said in [decoded_differ(accel_run, folder, tokenizer, theirs["ids"][:: 3])] if said]
    for problem in problems:
        print(f"{name}: {problem}")
    return "differs" if problems else "same"


# Folders that transformers loads and accel-run refuses.
REFUSED = ("llama of another model", "bert without a mask", "clip", "vocabulary of a class of SentencePiece",
           "vocabulary without a class")


def write_golden(scratch):
    """For the unit tests: the folders that transformers loads, with what it makes of the texts."""
    golden = []
    for name, source, files in CASES:
        folder = scratch / re.sub(r"\W+", "_", name)
        write_folder(folder, source, files)
        found, tokenizer = theirs_of(folder)
        if tokenizer is None or name in REFUSED:
            continue
        pair = tokenizer.backend_tokenizer.encode("Hello world", "a <s>b</s> c")
        decoded = [[tokenizer.decode(ids, skip_special_tokens=skip) for skip in (False, True)] for ids in found["ids"][::4]]
        golden.append({"name": name, "source": source, "files": files, "pair": pair.ids, "types": pair.type_ids,
                       "decoded": decoded, **found})
    lines = ",\n".join(json.dumps(case) for case in golden)
    (GOLDEN / "folders.json").write_text(f'{{"texts": {json.dumps(TEXTS)}, "cases": [\n{lines}\n]}}\n')


def main():
    if sys.argv[1] == "--write":
        with tempfile.TemporaryDirectory() as scratch:
            write_golden(Path(scratch))
        return 0
    accel_run = Path(sys.argv[1]).resolve()
    counts = {}
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        (scratch / "texts.jsonl").write_text("".join(json.dumps(text) + "\n" for text in TEXTS))
        for case in CASES:
            if len(sys.argv) > 2 and sys.argv[2] not in case[0]:
                continue
            fate = compare(accel_run, scratch, case)
            counts[fate] = counts.get(fate, 0) + 1
    print(", ".join(f"{count} {fate}" for fate, count in counts.items()))
    return 1 if counts.get("differs") or counts.get("refused by accel-run alone") else 0


if __name__ == "__main__":
    sys.exit(main())
