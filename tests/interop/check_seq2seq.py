#!/usr/bin/env python3
"""Compares encoder-decoders with transformers, and their metrics with sacrebleu and rouge_score.

    python tests/interop/check_seq2seq.py ACCEL_RUN [CASE...]

For each config: the losses of padded batches, of which several make a global batch, the exported folder, and the
targets of `generate`, `predict` and `evaluate`.
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

import peft
import sacrebleu
import safetensors.torch
import torch
import transformers
from rouge_score import rouge_scorer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from torch.nn import functional as F

STEPS, BATCH, MICRO_BATCH, LR = 20, 6, 2, 1e-3
WORDS = "a an the red blue old new cat dog bird house sees likes paints opens 3.5 7 - & !".split()
PREFIX = "translate: "

SMALL = {"d_model": 48, "d_kv": 10, "d_ff": 80, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4,
         "relative_attention_num_buckets": 12, "relative_attention_max_distance": 20, "dropout_rate": 0.0,
         "decoder_start_token_id": 0}
CASES = {
    "t5": ("T5", SMALL),
    "t5_bf16": ("T5", {**SMALL, "num_decoder_layers": 4, "feed_forward_proj": "gated-silu", "d_kv": 16}),
    "t5_one_layer": ("T5", {**SMALL, "num_layers": 1, "num_heads": 3, "layer_norm_epsilon": 1e-3,
                            "decoder_start_token_id": 5, "relative_attention_num_buckets": 4}),
    "flan": ("T5", {**SMALL, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "flan_tied": ("T5", {**SMALL, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "mt5": ("MT5", {**SMALL, "num_decoder_layers": None}),
}
OWN_HEAD = {"flan", "mt5"}
BF16 = {"t5_bf16"}
# Of the relative difference of a loss from that in float64. AdamW's first steps are the signs of gradients, of which rounding
# decides some: where transformers is further off in float32, we may be twice as far.
EXACT = 3e-7

RECIPE = f"""
name: job
model: {{type: auto, weights: theirs}}
data:
  train: {{type: text_to_text, path: pairs.jsonl, tokenizer: theirs, source_prefix: "{PREFIX}", max_source_length: 24,
          max_target_length: 14}}
  eval: {{type: text_to_text, path: eval.csv, source: de, target: en, tokenizer: theirs, source_prefix: "{PREFIX}",
         max_source_length: 24, max_target_length: 14}}
  loader: {{shuffle: false}}
task: {{type: seq2seq, predict_with_generate: true, generation_num_beams: 3, generation_max_length: 15}}
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
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -6.0)]
    pieces += [("\u2581" + word, -3.0) for word in WORDS]
    pieces += [(character, -9.0) for character in sorted(set("".join(WORDS) + PREFIX) - {" "})]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="\u2581", prepend_scheme="always")
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>",
                                                unk_token="<unk>")
    fast.save_pretrained(folder)
    return fast


def write_texts(folder):
    """Pairs for training and for evaluation; the longest are cut."""
    numbers = random.Random(3)

    def text(most):
        return " ".join(numbers.choice(WORDS) for _ in range(numbers.randint(1, most)))

    pairs = [(text(30), text(18)) for _ in range(STEPS * BATCH)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps({"source": a, "target": b}) + "\n" for a, b in pairs))
    held_out = [(text(12), text(9)) for _ in range(9)]
    (folder / "eval.csv").write_text("de,en\n" + "".join(f'"{a}","{b}"\n' for a, b in held_out))
    return pairs, held_out


def make_model(name, vocabulary):
    family, options = CASES[name]
    torch.manual_seed(7)
    config = getattr(transformers, f"{family}Config")(vocab_size=vocabulary, **options)
    model = getattr(transformers, f"{family}ForConditionalGeneration")(config)
    if name in OWN_HEAD:
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.shared.weight))
        model.config.tie_word_embeddings = False
    return model


def load(name, folder):
    model, info = getattr(transformers, f"{CASES[name][0]}ForConditionalGeneration").from_pretrained(
        folder, output_loading_info=True, dtype=torch.float32)
    wrong = {key: value for key, value in info.items() if value}
    assert not wrong, f"{folder}: {wrong}"
    is_own = model.lm_head.weight.data_ptr() != model.shared.weight.data_ptr()
    assert is_own == (name in OWN_HEAD), f"{folder}: the head is {'not ' if is_own else ''}tied"
    return model


def tokens_of(tokenizer, pairs):
    """Inputs, mask and labels as DataCollatorForSeq2Seq has them."""
    sources = tokenizer([PREFIX + a for a, _ in pairs], max_length=24, truncation=True, padding=True,
                        return_tensors="pt")
    labels = tokenizer([b for _, b in pairs], max_length=14, truncation=True, padding=True, return_tensors="pt")
    return sources.input_ids, sources.attention_mask, labels.input_ids.masked_fill(labels.attention_mask == 0, -100)


def loss_sum(model, tokens):
    inputs, mask, labels = tokens
    logits = model(input_ids=inputs, attention_mask=mask, labels=labels).logits
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum"), (labels != -100).sum()


def train(model, tokenizer, pairs):
    """The mean over the tokens of each global batch."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01)
    losses = []
    for step in range(STEPS):
        batch = pairs[step * BATCH:(step + 1) * BATCH]
        parts = [loss_sum(model, tokens_of(tokenizer, batch[i:i + MICRO_BATCH]))
                 for i in range(0, BATCH, MICRO_BATCH)]
        loss = sum(part for part, _ in parts) / sum(count for _, count in parts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def events_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def apart(losses, expected):
    return max(abs(a - b) / b for a, b in zip(losses, expected, strict=True))


def check_losses(run, model, exact, tokenizer, pairs):
    """Trains transformers' model, and that in float64."""
    losses = [line["loss"] for line in events_of(run) if "loss_bits" in line]
    expected = train(exact, tokenizer, pairs)
    own, theirs = apart(losses, expected), apart(train(model, tokenizer, pairs), expected)
    assert own < max(EXACT, 2 * theirs), (own, theirs, losses, expected)
    return f"{own:.1e} of those in float64 (transformers {theirs:.1e})"


def check_logits(models, tokens):
    """Of the trained models: ours, transformers', and that in float64."""
    inputs, mask, labels = tokens
    with torch.no_grad():
        ours, theirs, exact = (model.eval()(input_ids=inputs, attention_mask=mask, labels=labels).logits for model in models)
    far = [((logits - exact).abs().max() / exact.abs().max()).item() for logits in (ours, theirs)]
    assert far[0] < max(1e-5, 2 * far[1]), far


def generated(model, tokenizer, sources, **options):
    """One by one, as padding would round otherwise. Without the cache, which transformers makes with the encoder's number of
    layers."""
    out = []
    for source in sources:
        ids = tokenizer(PREFIX + source, max_length=24, truncation=True, return_tensors="pt").input_ids
        with torch.no_grad():
            found = model.generate(input_ids=ids, do_sample=False, use_cache=False, eos_token_id=1, pad_token_id=0, **options)
        out.append(found[0, 1:])  # without the start token
    return [tokenizer.decode(ids, skip_special_tokens=True) for ids in out]


def check_texts(binary, folder, model, tokenizer, held_out):
    """What the run generates for eval data, and its scores."""
    sources, references = [a for a, _ in held_out], [b for _, b in held_out]
    wanted = generated(model, tokenizer, sources, num_beams=3, max_length=15)
    lines = accel_run(binary, folder, "predict", "runs/job", "--input", "eval.csv").splitlines()
    found = [json.loads(line)["prediction"] for line in lines if line.startswith("{")]
    assert found == wanted, (found, wanted)
    results = next(line for line in reversed(events_of(folder / "runs/job")) if "eval/bleu" in json.dumps(line))
    values = results.get("eval", results)
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"])
    labels = [tokenizer.decode(tokenizer(text, max_length=14, truncation=True).input_ids, skip_special_tokens=True)
              for text in references]
    scores = [scorer.score(reference, text) for reference, text in zip(labels, wanted)]
    expected = {kind: sum(score[kind].fmeasure for score in scores) / len(scores) for kind in scores[0]}
    expected["bleu"] = sacrebleu.corpus_bleu(wanted, [labels]).score
    for kind, value in expected.items():
        found_value = values[f"eval/{kind}"]
        assert abs(found_value - value) < 1e-9, (kind, found_value, value)
    greedy = generated(model, tokenizer, sources[:4], max_new_tokens=9)
    words = [word for source in sources[:4] for word in ("--prompt", PREFIX + source)]
    lines = accel_run(binary, folder, "generate", "ours", *words, "--temperature", "0", "--max-new-tokens", "9",
                      "--json").splitlines()
    assert [json.loads(line)["text"] for line in lines] == greedy, (lines, greedy)


def check(binary, folder, name):
    tokenizer = write_tokenizer(folder / "theirs")
    pairs, held_out = write_texts(folder)
    theirs = make_model(name, len(tokenizer) + 3)
    if name in BF16:
        theirs.to(torch.bfloat16).save_pretrained(folder / "theirs", max_shard_size="20KB")
        assert len(list((folder / "theirs").glob("model-*.safetensors"))) > 1
    else:
        theirs.save_pretrained(folder / "theirs")
    theirs = load(name, folder / "theirs")
    (folder / "job.yaml").write_text(RECIPE)
    accel_run(binary, folder, "job.yaml")
    exact = copy.deepcopy(theirs).double()
    worst = check_losses(folder / "runs/job", theirs, exact, tokenizer, pairs)
    accel_run(binary, folder, "export", "runs/job", "--to", "ours")
    ours = load(name, folder / "ours").eval()
    check_logits((ours, theirs, exact), tokens_of(tokenizer, pairs[:4]))
    check_texts(binary, folder, ours, tokenizer, held_out)
    print(f"{name}: {STEPS} losses within {worst}, exported and loaded, the same texts and scores")


def first_fit(sizes, most):
    """Members of the samples in which pairs of these sizes are packed, each in the first one with room."""
    samples = []
    for i, size in enumerate(sizes):
        for used, members in samples:
            if all(a + b <= c for a, b, c in zip(used, size, most)):
                used[:] = [a + b for a, b in zip(used, size)]
                members.append(i)
                break
        else:
            samples.append((list(size), [i]))
    return [members for _, members in samples]


def check_packed(binary, folder):
    """Several pairs in a sample have the loss of a batch of them."""
    tokenizer = write_tokenizer(folder / "theirs")
    pairs, _ = write_texts(folder)
    pairs = pairs[:60]  # fewer samples are open at a time than the packing keeps
    (folder / "pairs.jsonl").write_text("".join(json.dumps({"source": a, "target": b}) + "\n" for a, b in pairs))
    make_model("flan", len(tokenizer)).save_pretrained(folder / "theirs")
    theirs = load("flan", folder / "theirs").train()
    recipe = RECIPE.replace("max_source_length: 24,\n          max_target_length: 14", "max_source_length: 70,\n          "
                            "max_target_length: 40, pack: true", 1)
    (folder / "job.yaml").write_text(recipe)
    lengths = [(len(tokenizer(PREFIX + a).input_ids), len(tokenizer(b).input_ids) + 1) for a, b in pairs]
    packed = first_fit(lengths, (70, 41))
    steps = len(packed) // 2
    accel_run(binary, folder, "job.yaml", f"train.until={steps} steps", "train.batch=2", "train.micro_batch=1",
              "task={type: seq2seq}", "~eval", "~data.eval")
    losses = [line["loss"] for line in events_of(folder / "runs/job") if "loss_bits" in line]
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=LR, weight_decay=0.01)
    expected = []
    for step in range(steps):
        members = [i for sample in packed[2 * step:2 * step + 2] for i in sample]
        sources = tokenizer([PREFIX + pairs[i][0] for i in members], padding=True, return_tensors="pt")
        labels = tokenizer([pairs[i][1] for i in members], padding=True, return_tensors="pt")
        total, count = loss_sum(theirs, (sources.input_ids, sources.attention_mask,
                                         labels.input_ids.masked_fill(labels.attention_mask == 0, -100)))
        optimizer.zero_grad()
        (total / count).backward()
        optimizer.step()
        expected.append((total / count).item())
    worst = apart(losses, expected)
    assert worst < 1e-6, (worst, losses, expected)
    print(f"packed: {len(pairs)} pairs in {len(packed)} samples, {steps} losses within {worst:.1e}")


def check_quantized(binary, folder):
    """Weights in 4 bits with an adapter, against transformers, peft and bitsandbytes: all linear layers but `wo` and the head."""
    tokenizer = write_tokenizer(folder / "theirs")
    pairs, _ = write_texts(folder)
    torch.manual_seed(7)
    config = transformers.T5Config(**{**SMALL, "d_model": 64, "d_kv": 16, "d_ff": 128}, vocab_size=len(tokenizer))
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder / "theirs")
    base = transformers.T5ForConditionalGeneration.from_pretrained(
        folder / "theirs", dtype=torch.float32, device_map="cpu",
        quantization_config=transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4"))
    theirs = peft.get_peft_model(base, peft.LoraConfig(r=4, lora_alpha=6, target_modules=["q", "v", "wo"],
                                                       init_lora_weights=False))
    theirs.save_pretrained(folder / "adapter")
    more = "weights: theirs, quantization: {type: nf4}, lora: {adapter: adapter}}"
    recipe = RECIPE.replace("weights: theirs}", more).replace("predict_with_generate: true, generation_num_beams: 3, "
                                                              "generation_max_length: 15", "")
    (folder / "job.yaml").write_text(recipe)
    accel_run(binary, folder, "job.yaml")
    stored = safetensors.torch.load_file(next(folder.glob("runs/job/checkpoints/*/model.safetensors")))
    packed = {name.removesuffix(".absmax") for name in stored if name.endswith(".absmax")}
    state = base.state_dict()
    wanted = {name.removesuffix(".absmax").replace("base_layer.", "") for name in state if name.endswith(".absmax")}
    assert {name.replace("base_layer.", "") for name in packed} == wanted, packed ^ wanted
    losses = [line["loss"] for line in events_of(folder / "runs/job") if "loss_bits" in line]
    worst = apart(losses, train(theirs, tokenizer, pairs))
    assert worst < 1e-3, worst
    print(f"quantized: {len(packed)} weights in nf4, {STEPS} losses within {worst:.1e}")


def main():
    binary = Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    others = {"quantized": check_quantized, "packed": check_packed}
    for name in sys.argv[2:] or [*CASES, *others]:
        with tempfile.TemporaryDirectory() as folder:
            if name in others:
                others[name](binary, Path(folder))
            else:
                check(binary, Path(folder), name)


if __name__ == "__main__":
    main()
