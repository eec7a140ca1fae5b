#!/usr/bin/env python3
"""Compares CLIP with transformers.

    python tests/interop/check_clip.py ACCEL_RUN [CASE...]

For each config: the losses of micro-batches, of which two make a global batch, the exported folder with its tokenizer and
image processor, what `predict` writes, and the recall of an evaluation.
"""

import copy
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from PIL import Image

STEPS, BATCH, MICRO_BATCH, LR, LENGTH = 20, 8, 4, 1e-3, 12
MEAN, STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
WORDS = "a photo of the red blue big small cat dog bird house tree in front and behind".split()

TEXT = {"hidden_size": 32, "intermediate_size": 72, "num_hidden_layers": 2, "num_attention_heads": 4,
        "max_position_embeddings": 16}
VISION = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6, "image_size": 24,
          "patch_size": 8}
# The end token: "first" is the number that the first folders have, for which the highest token counts.
CASES = {
    "openai": {"text": TEXT, "vision": VISION, "projection_dim": 24, "eos": "first"},
    "gelu": {"text": {**TEXT, "hidden_size": 60, "num_attention_heads": 5, "hidden_act": "gelu"},
             "vision": {**VISION, "hidden_size": 36, "num_attention_heads": 3, "hidden_act": "gelu", "patch_size": 6},
             "projection_dim": 37, "logit_scale_init_value": 1.5},
    "bf16_shards": {"text": {**TEXT, "num_hidden_layers": 4, "layer_norm_eps": 1e-3, "max_position_embeddings": LENGTH},
                    "vision": {**VISION, "num_hidden_layers": 1, "num_attention_heads": 2, "patch_size": 24},
                    "projection_dim": 32},
    "mixed": {"text": {**TEXT, "num_hidden_layers": 1, "num_attention_heads": 1, "hidden_act": "gelu"},
              "vision": {**VISION, "hidden_size": 64, "num_attention_heads": 4, "patch_size": 4, "intermediate_size": 40},
              "projection_dim": 5, "eos": "first"},
}
BF16, OLD_SECTIONS = {"bf16_shards"}, {"openai"}
# Of the relative difference of a loss from that in float64: see check_seq2seq.py.
EXACT = 3e-7

RECIPE = f"""
name: job
model: {{type: auto, weights: theirs}}
data:
  train: {{type: image_text, path: pairs.jsonl, tokenizer: theirs, max_length: {LENGTH}}}
  eval: {{type: image_text, path: eval/captions.csv, image: file_name, text: caption, tokenizer: theirs,
         max_length: {LENGTH}}}
  transform:
    - {{type: resize, size: 24, interpolation: bicubic}}
    - {{type: center_crop, size: 24}}
    - {{type: normalize, mean: {MEAN}, std: {STD}}}
  loader: {{shuffle: false}}
optimizer: {{type: adamw, lr: {LR}, weight_decay: 0.01}}
train: {{until: {STEPS} steps, batch: {BATCH}, micro_batch: {MICRO_BATCH}, max_grad_norm: none}}
eval: {{every: {STEPS} steps}}
accelerator: {{num_cpu_threads_per_process: 1, kernels: reference}}
"""


def accel_run(binary, folder, *words):
    done = subprocess.run([binary, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def write_tokenizer(folder):
    """CLIP's, with few tokens."""
    letters = sorted(set("".join(WORDS)))
    pieces, merges = letters + [letter + "</w>" for letter in letters], []
    for word in WORDS:
        parts = [*word[:-1], word[-1] + "</w>"]
        while len(parts) > 1:
            joined = parts[0] + parts[1]
            if joined not in pieces:
                pieces.append(joined)
                merges.append((parts[0], parts[1]))
            parts = [joined, *parts[2:]]
    pieces += ["<|startoftext|>", "<|endoftext|>"]
    tokenizer = transformers.CLIPTokenizer(vocab={piece: i for i, piece in enumerate(pieces)}, merges=merges)
    tokenizer.save_pretrained(folder)
    transformers.CLIPImageProcessor(size={"shortest_edge": 24}, crop_size=24).save_pretrained(folder)
    return tokenizer


def write_pairs(folder):
    """Pairs for training and for evaluation; of the latter some images have two texts. The longest texts are cut."""
    numbers = random.Random(3)
    (folder / "eval").mkdir()

    def text():
        return " ".join(numbers.choice(WORDS) for _ in range(numbers.randint(1, 14)))

    def image(name):
        noise = Image.frombytes("RGB", (24, 24), bytes(numbers.randrange(256) for _ in range(24 * 24 * 3)))
        noise.save(folder / name)
        return name

    pairs = [(image(f"{i}.png"), text()) for i in range(STEPS * BATCH)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps({"image": a, "text": b}) + "\n" for a, b in pairs))
    images = [image(f"eval/{i}.png") for i in range(10)]
    held_out = [(images[i % 10], text()) for i in range(14)]
    held_out.append((images[3], held_out[0][1]))
    (folder / "eval/captions.csv").write_text(
        "file_name,caption\n" + "".join(f'{Path(a).name},"{b}"\n' for a, b in held_out))
    return pairs, held_out


def make_model(name, tokenizer):
    case = dict(CASES[name])
    text, vision, eos = case.pop("text"), case.pop("vision"), case.pop("eos", "")
    text = {**text, "vocab_size": len(tokenizer) + (0 if eos else 3),
            "eos_token_id": 2 if eos == "first" else tokenizer.eos_token_id}
    torch.manual_seed(7)
    model = transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision, **case))
    with torch.no_grad():  # norms and biases that would show a wrong place
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
    return model


def write_old_sections(path):
    """The sections of the first folders: all values are those of the `_dict`."""
    config = json.loads(path.read_text())
    for key in ("text_config", "vision_config"):
        config[key + "_dict"] = config[key]
        config[key] = {"hidden_size": 4, "dropout": 0.0, "add_cross_attention": False, "bad_words_ids": None}
    path.write_text(json.dumps(config))


def load(folder):
    model, info = transformers.CLIPModel.from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
    wrong = {key: value for key, value in info.items() if value}
    assert not wrong, f"{folder}: {wrong}"
    return model


def inputs_of(folder, tokenizer, pairs, dtype):
    """As the recipe prepares them."""
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    images = [torch.frombuffer(bytearray(Image.open(folder / name).tobytes()), dtype=torch.uint8) for name, _ in pairs]
    pixels = torch.stack([(image.view(24, 24, 3).permute(2, 0, 1) / 255 - mean) / std for image in images])
    texts = tokenizer([text for _, text in pairs], max_length=LENGTH, truncation=True, padding="max_length",
                      return_tensors="pt")
    return {"pixel_values": pixels.to(dtype), "input_ids": texts.input_ids, "attention_mask": texts.attention_mask}


def train(model, folder, tokenizer, pairs):
    """The mean over the micro-batches of each global batch."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01)
    losses = []
    for step in range(STEPS):
        batch = pairs[step * BATCH:(step + 1) * BATCH]
        parts = [model(**inputs_of(folder, tokenizer, batch[i:i + MICRO_BATCH], model.dtype), return_loss=True).loss
                 for i in range(0, BATCH, MICRO_BATCH)]
        loss = sum(parts) / len(parts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def events_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def apart(losses, expected):
    return max(abs(a - b) / b for a, b in zip(losses, expected, strict=True))


def check_losses(folder, model, exact, tokenizer, pairs):
    losses = [line["loss"] for line in events_of(folder / "runs/job") if "loss_bits" in line]
    expected = train(exact, folder, tokenizer, pairs)
    own, theirs = apart(losses, expected), apart(train(model, folder, tokenizer, pairs), expected)
    assert own < max(EXACT, 2 * theirs), (own, theirs, losses, expected)
    return f"{own:.1e} of those in float64 (transformers {theirs:.1e})"


def recalls(similarity, images, texts):
    """Recall of distinct images and texts, by definition."""
    pairs = set(zip(images, texts))
    one_image, one_text = ({key: keys.index(key) for key in dict.fromkeys(keys)} for keys in (images, texts))
    found = {}
    for k in (1, 5):
        hits = [any((a, b) in pairs for b in sorted(one_text, key=lambda b: -similarity[i, one_text[b]])[:k])
                for a, i in one_image.items()]
        found[f"image_to_text_recall_{k}"] = sum(hits) / len(hits)
        hits = [any((a, b) in pairs for a in sorted(one_image, key=lambda a: -similarity[one_image[a], j])[:k])
                for b, j in one_text.items()]
        found[f"text_to_image_recall_{k}"] = sum(hits) / len(hits)
    return found


def check_eval(binary, folder, model, tokenizer, held_out):
    """The embeddings of `predict`, and the recall of the evaluation, of the exported model."""
    with torch.no_grad():
        output = model(**inputs_of(folder, tokenizer, held_out, torch.float32))
    lines = accel_run(binary, folder, "predict", "runs/job", "--input", "eval/captions.csv").splitlines()
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    assert [row["name"] for row in rows] == [Path(name).name for name, _ in held_out], rows
    for key in ("image_embeds", "text_embeds"):
        far = (torch.tensor([row[key] for row in rows]) - output[key]).abs().max().item()
        assert far < 1e-5, (key, far)
    similarity = output.image_embeds @ output.text_embeds.T
    far = (torch.tensor([row["similarity"] for row in rows]) - similarity.diagonal()).abs().max().item()
    assert far < 1e-5, far
    events = [line for line in events_of(folder / "runs/job") if "image_to_text_recall_1" in json.dumps(line)]
    values = events[-1].get("eval", events[-1])
    # Two texts may have the same tokens once they are cut.
    tokens = [tuple(ids) for ids in tokenizer([text for _, text in held_out], max_length=LENGTH, truncation=True).input_ids]
    for key, value in recalls(similarity, [name for name, _ in held_out], tokens).items():
        assert abs(values[f"eval/{key}"] - value) < 1e-9, (key, values, value)


def check_processor(folder, pairs):
    """That of the exported folder prepares images and texts as the recipe does."""
    processor = transformers.CLIPProcessor.from_pretrained(folder / "ours")
    wanted = inputs_of(folder, processor.tokenizer, pairs[:6], torch.float32)
    found = processor(images=[Image.open(folder / name) for name, _ in pairs[:6]], text=[text for _, text in pairs[:6]],
                      max_length=LENGTH, truncation=True, padding="max_length", return_tensors="pt")
    assert torch.equal(found["input_ids"], wanted["input_ids"]), (found["input_ids"], wanted["input_ids"])
    far = (found["pixel_values"] - wanted["pixel_values"]).abs().max().item()
    assert far < 1e-5, far


def check(binary, folder, name):
    tokenizer = write_tokenizer(folder / "theirs")
    pairs, held_out = write_pairs(folder)
    theirs = make_model(name, tokenizer)
    if name in BF16:
        theirs.to(torch.bfloat16).save_pretrained(folder / "theirs", max_shard_size="50KB")
        assert len(list((folder / "theirs").glob("model-*.safetensors"))) > 1
    else:
        theirs.save_pretrained(folder / "theirs")
    if name in OLD_SECTIONS:
        write_old_sections(folder / "theirs/config.json")
    theirs = load(folder / "theirs")
    (folder / "job.yaml").write_text(RECIPE)
    accel_run(binary, folder, "job.yaml")
    worst = check_losses(folder, theirs, copy.deepcopy(theirs).double(), tokenizer, pairs)
    accel_run(binary, folder, "export", "runs/job", "--to", "ours")
    check_eval(binary, folder, load(folder / "ours").eval(), tokenizer, held_out)
    check_processor(folder, pairs)
    print(f"{name}: {STEPS} losses within {worst}, exported and loaded, the same embeddings and recall")


def main():
    binary = Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    for name in sys.argv[2:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            check(binary, Path(folder), name)


if __name__ == "__main__":
    main()
