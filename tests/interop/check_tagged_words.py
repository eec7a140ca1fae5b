"""Compares words with tags, as accel-run makes tokens and labels of them and trains on them, with what transformers does.

    python tests/interop/check_tagged_words.py ACCEL_RUN
"""

import json
import random
import sys
import tempfile
from pathlib import Path

import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors
from torch.nn import functional as F

import check_hf_models as hf

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
MAX_LENGTH = 24
ODD = ["", "İstanbul", "naïve", "x-ray", "don't", "3,5", "…", "日本語", "a\u0301b", "🙂", "Zoë's"]

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def word_pieces():
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="<unk>"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made, tokenizers.trainers.WordPieceTrainer(vocab_size=120, special_tokens=SPECIAL)


def byte_pairs():
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made, tokenizers.trainers.BpeTrainer(vocab_size=340, special_tokens=SPECIAL,
                                                initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


LABELLED = {"pad_token_id": 1, "num_labels": len(LABELS), "id2label": dict(enumerate(LABELS)), "classifier_dropout": 0.0}
BERT = {**hf.BERT, **LABELLED}

CASES = {
    "bert": ("BertForTokenClassification", "BertConfig", word_pieces, BERT),
    "roberta": ("RobertaForTokenClassification", "RobertaConfig", byte_pairs, {**BERT, "max_position_embeddings": 34}),
    "modernbert": ("ModernBertForTokenClassification", "ModernBertConfig", word_pieces, {
        **hf.MODERNBERT, **LABELLED, "global_attn_every_n_layers": 2}),
    "gpt2": ("GPT2ForTokenClassification", "GPT2Config", byte_pairs, {
        **hf.SMALL, **LABELLED, "n_inner": 72, "activation_function": "gelu_pytorch_tanh"}),
    "llama": ("LlamaForTokenClassification", "LlamaConfig", byte_pairs, {
        **hf.LLAMA, **LABELLED, "attention_bias": True, "rope_parameters": hf.YARN}),
    "qwen3": ("Qwen3ForTokenClassification", "Qwen3Config", byte_pairs, {
        **hf.LLAMA, **LABELLED, "head_dim": 20, "use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}),
    "electra": ("ElectraForTokenClassification", "ElectraConfig", word_pieces, {**hf.ELECTRA, **LABELLED}),
    "deberta": ("DebertaV2ForTokenClassification", "DebertaV2Config", byte_pairs, {
        **{key: value for key, value in {**hf.DEBERTA_V3, **LABELLED}.items() if key != "classifier_dropout"}}),
    "gpt_neox": ("GPTNeoXForTokenClassification", "GPTNeoXConfig", byte_pairs, {
        **hf.NEOX, **LABELLED, "rope_parameters": hf.HALF, "use_parallel_residual": False}),
    "phi3": ("Phi3ForTokenClassification", "Phi3Config", byte_pairs, {**hf.LLAMA, **LABELLED, "sliding_window": 4}),
}


def write_lines(folder):
    draw = random.Random(4)
    letters = "abcdefgh"
    lines = []
    for _ in range(hf.STEPS * hf.BATCH):
        words = [draw.choice(ODD) if draw.random() < 0.15 else "".join(draw.choices(letters, k=draw.randint(1, 9)))
                 for _ in range(draw.randint(1, 9))]
        words[0] = words[0] or "first"
        lines.append({"tokens": words, "ner_tags": [draw.choice(LABELS) for _ in words]})
    (folder / "words.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return lines


def make_tokenizer(folder, make, lines):
    """Trains and saves one; returns it as transformers has it for words."""
    made, trainer = make()
    made.train_from_iterator((" ".join(line["tokens"]) for line in lines), trainer)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[(token, made.token_to_id(token)) for token in ("<s>", "</s>")])
    made.save(str(folder / "tokenizer.json"))
    if isinstance(made.pre_tokenizer, pre_tokenizers.ByteLevel):
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", unk_token="<unk>")


def batch_of(tokenizer, lines):
    """As run_ner.py makes it: a word's first token is labelled."""
    batch = tokenizer([line["tokens"] for line in lines], is_split_into_words=True, truncation=True,
                      max_length=MAX_LENGTH, padding=True, return_tensors="pt", return_token_type_ids=False)
    labels = torch.full(batch["input_ids"].shape, -100)
    for row, line in enumerate(lines):
        before = None
        for place, word in enumerate(batch.word_ids(row)):
            if word is not None and word != before:
                labels[row, place] = LABELS.index(line["ner_tags"][word])
            before = word
    return batch, labels


def train(model, batches):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=hf.LR, weight_decay=0.01)
    losses = []
    for batch, labels in batches:
        loss = F.cross_entropy(model(**batch).logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def check(binary, folder, name):
    class_name, config_class, make, options = CASES[name]
    lines = write_lines(folder)
    tokenizer = make_tokenizer(folder, make, lines)
    batches = [batch_of(tokenizer, lines[i:i + hf.BATCH]) for i in range(0, len(lines), hf.BATCH)]
    assert any(len(batch["input_ids"][0]) == MAX_LENGTH for batch, _ in batches), "nothing is cut"
    torch.manual_seed(7)
    theirs = getattr(transformers, class_name)(
        getattr(transformers, config_class)(**{**options, "vocab_size": len(tokenizer)}))
    theirs.save_pretrained(folder / "theirs")
    train_data = f"{{type: token_classification, path: words.jsonl, tokenizer: tokenizer.json, max_length: {MAX_LENGTH}, " \
                 f"labels: [{', '.join(LABELS)}]}}"
    (folder / "job.yaml").write_text(hf.RECIPE.replace("{type: npy, inputs: inputs.npy, targets: targets.npy}", train_data))
    hf.accel_run(binary, folder, "job.yaml")
    losses, expected = hf.losses_of(folder / "runs/job"), train(theirs, batches)
    worst = max(abs(a - b) / b for a, b in zip(losses, expected, strict=True))
    assert worst < 1e-5, (worst, losses, expected)
    hf.accel_run(binary, folder, "export", "runs/job", "--to", "ours")
    ours = hf.load(class_name, folder / "ours")
    hf.same_logits(ours, theirs.eval(), batches[0][0]["input_ids"])
    assert list(ours.config.id2label.values()) == LABELS
    print(f"{name}: {hf.STEPS} losses within {worst:.1e}, exported and loaded")


def main():
    binary = Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    for name in sys.argv[2:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            check(binary, Path(folder), name)


if __name__ == "__main__":
    main()
