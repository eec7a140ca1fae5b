"""Compares decoders with a head for classes on padded texts with transformers' own.

    python tests/interop/check_padded_texts.py ACCEL_RUN [CASE...]

Texts end with the token that pads, or with others: transformers reads the last token that is none of padding.
"""

import copy
import json
import random
import sys
import tempfile
from pathlib import Path

import tokenizers
import torch
import transformers
from tokenizers import models, pre_tokenizers, processors

import check_hf_models as hf

WORDS = ["<pad>", "<end>", *"abcdefgh"]
MAX_LENGTH = 14
CLASSES = {"num_labels": hf.CLASSES, "vocab_size": len(WORDS)}

# Class, config, options, and the token after each text.
CASES = {
    "gpt2": ("GPT2ForSequenceClassification", "GPT2Config", {**hf.SMALL, **CLASSES, "pad_token_id": 0}, "<end>"),
    "gpt2 of padding": ("GPT2ForSequenceClassification", "GPT2Config", {
        **hf.SMALL, **CLASSES, "n_inner": 40, "tie_word_embeddings": False, "pad_token_id": 1}, "<end>"),
    "gpt_neox": ("GPTNeoXForSequenceClassification", "GPTNeoXConfig", {
        **hf.NEOX, **CLASSES, "rope_parameters": hf.HALF, "pad_token_id": 0}, "<end>"),
    "opt of padding": ("OPTForSequenceClassification", "OPTConfig", {
        **hf.OPT, **CLASSES, "word_embed_proj_dim": 20, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 1}, "<end>"),
    "llama of padding": ("LlamaForSequenceClassification", "LlamaConfig", {
        **hf.LLAMA, **CLASSES, "head_dim": 20, "pad_token_id": 0}, "<pad>"),
    "mistral": ("MistralForSequenceClassification", "MistralConfig", {
        **hf.LLAMA, **CLASSES, "sliding_window": 3, "pad_token_id": 0}, "<end>"),
    "qwen2 regression": ("Qwen2ForSequenceClassification", "Qwen2Config", {
        **hf.LLAMA, **CLASSES, "num_labels": 1, "tie_word_embeddings": True, "pad_token_id": 1}, "<end>"),
}


def write_lines(folder, classes):
    draw = random.Random(4)
    lines = []
    for _ in range(hf.STEPS * hf.BATCH):
        text = " ".join(draw.choices(WORDS[2:], k=draw.randint(1, MAX_LENGTH + 3)))
        label = draw.randrange(classes) if classes > 1 else round(draw.uniform(-1, 1), 3)
        lines.append({"text": text, "label": label if classes == 1 else str(label)})
    (folder / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return lines


def make_tokenizer(folder, end):
    ids = {word: index for index, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(models.WordLevel(ids, unk_token="a"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(single=f"$A {end}", special_tokens=[(end, ids[end])])
    made.add_special_tokens(["<pad>", "<end>"])
    made.save(str(folder / "tokenizer.json"))
    return made


def batches_of(tokenizer, lines, pad):
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=WORDS[pad])
    for start in range(0, len(lines), hf.BATCH):
        rows = lines[start:start + hf.BATCH]
        batch = tokenizer([row["text"] for row in rows], truncation=True, max_length=MAX_LENGTH, padding=True,
                          return_tensors="pt", return_token_type_ids=False)
        yield batch, torch.tensor([row["label"] if isinstance(row["label"], float) else int(row["label"]) for row in rows])


def train(model, batches):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=hf.LR, weight_decay=0.01)
    losses = []
    for batch, labels in batches:
        loss = model(**batch, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def check(binary, folder, name):
    class_name, config_class, options, end = CASES[name]
    lines = write_lines(folder, options["num_labels"])
    batches = list(batches_of(make_tokenizer(folder, end), lines, options["pad_token_id"]))
    torch.manual_seed(7)
    theirs = getattr(transformers, class_name)(getattr(transformers, config_class)(**options))
    theirs.save_pretrained(folder / "theirs")
    kind = "labels: ['0', '1', '2']" if options["num_labels"] > 1 else "target_type: number"
    data = f"{{type: jsonl, path: lines.jsonl, tokenizer: tokenizer.json, max_length: {MAX_LENGTH}, " \
           f"target: label, {kind}}}"
    (folder / "job.yaml").write_text(hf.RECIPE.replace("{type: npy, inputs: inputs.npy, targets: targets.npy}", data))
    hf.accel_run(binary, folder, "job.yaml")
    twin = copy.deepcopy(theirs)
    worst = hf.distance(hf.losses_of(folder / "runs/job"), train(theirs, batches), lambda: train(twin.double(), batches), 3e-7)
    hf.accel_run(binary, folder, "export", "runs/job", "--to", "ours")
    ours = hf.load(class_name, folder / "ours")
    assert ours.config.pad_token_id == options["pad_token_id"]
    hf.same_logits(ours, theirs.eval(), batches[0][0]["input_ids"])
    print(f"{name}: {hf.STEPS} losses within {worst:.1e}, exported and loaded")


def main():
    binary = Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    for name in sys.argv[2:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            check(binary, Path(folder), name)


if __name__ == "__main__":
    main()
