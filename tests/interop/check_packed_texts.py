"""Compares encoders that train on packed texts with transformers' own.

    python tests/interop/check_packed_texts.py ACCEL_RUN [CASE...]

transformers gets the same rows with block-diagonal masks and positions that restart; DeBERTa, which takes no such mask,
the texts apart. Both must give the losses of 20 steps of AdamW.
"""

import json
import random
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from torch.nn import functional as F

import check_hf_models as hf
import check_tagged_words as tagged

TEXTS, ROW, OPEN = 520, 32, 64
BOUND = 3e-7
NO_TYPE = {"id2label": dict(enumerate(tagged.LABELS)), "num_labels": len(tagged.LABELS), "classifier_dropout": 0.0}
PLAIN = {key: value for key, value in NO_TYPE.items() if key != "classifier_dropout"}
YARN = {"full_attention": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0, "original_max_position_embeddings": 16},
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}

ROLES = {"pad_token": "<pad>", "mask_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}  # these are never masked

# Class, config, tokenizer, options; classes of masked tokens have all tokens as targets.
CASES = {
    "bert": ("BertForMaskedLM", "BertConfig", tagged.word_pieces, {
        **hf.BERT, "pad_token_id": 1, "num_attention_heads": 3, "type_vocab_size": 3}),
    "bert_labels": ("BertForTokenClassification", "BertConfig", tagged.word_pieces, {
        **hf.BERT, **NO_TYPE, "pad_token_id": 1, "hidden_act": "gelu_new"}),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", tagged.byte_pairs, {
        **hf.ROBERTA, "pad_token_id": 1, "max_position_embeddings": 34}),
    "roberta_labels": ("RobertaForTokenClassification", "RobertaConfig", tagged.byte_pairs, {
        **hf.ROBERTA, **NO_TYPE, "pad_token_id": 1, "max_position_embeddings": 37, "type_vocab_size": 2}),
    "modernbert": ("ModernBertForMaskedLM", "ModernBertConfig", tagged.word_pieces, {
        **hf.MODERNBERT, "pad_token_id": 1, "global_attn_every_n_layers": 2, "local_attention": 4}),
    "modernbert_labels": ("ModernBertForTokenClassification", "ModernBertConfig", tagged.word_pieces, {
        **hf.MODERNBERT, **NO_TYPE, "pad_token_id": 1, "norm_bias": True, "attention_bias": True, "rope_parameters": YARN}),
    "deberta": ("DebertaV2ForMaskedLM", "DebertaV2Config", tagged.byte_pairs, {
        **hf.DEBERTA_V3, "pad_token_id": 1, "position_buckets": 6}),
    "deberta_labels": ("DebertaV2ForTokenClassification", "DebertaV2Config", tagged.byte_pairs, {
        **hf.DEBERTA_V3, **PLAIN, "pad_token_id": 1, "share_att_key": False, "type_vocab_size": 2,
        "position_biased_input": True}),
    "electra_labels": ("ElectraForTokenClassification", "ElectraConfig", tagged.word_pieces, {
        **hf.ELECTRA, **NO_TYPE, "pad_token_id": 1}),
    "distilbert": ("DistilBertForMaskedLM", "DistilBertConfig", tagged.word_pieces, {**hf.DISTILBERT, "pad_token_id": 1}),
}


def write_lines(folder):
    draw = random.Random(8)
    lines = []
    for _ in range(TEXTS):
        words = ["".join(draw.choices("abcdefgh", k=draw.randint(1, 6))) for _ in range(draw.randint(1, 5))]
        lines.append({"text": " ".join(words), "tokens": words, "ner_tags": [draw.choice(tagged.LABELS) for _ in words]})
    (folder / "words.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return lines


def packed(lengths):
    """The texts of each row: into the first of the last 64 open rows with room."""
    rows, space = [], []  # of all rows, and (row, room) of the open ones
    for index, length in enumerate(lengths):
        place = next((place for place in space if place[1] >= length), None)
        if place is None:
            if len(space) == OPEN:
                space.pop(0)
            place = [len(rows), ROW]
            space.append(place)
            rows.append([])
        rows[place[0]].append(index)
        place[1] -= length
        if place[1] == 0:
            space.remove(place)
    return rows


def text_of(tokenizer, line, of_labels):
    """Tokens and targets of one text; of the special tokens none."""
    if not of_labels:
        ids = tokenizer(line["text"], truncation=True, max_length=ROW)["input_ids"]
        return ids, [-100, *ids[1:-1], -100]
    batch, labels = tagged.batch_of(tokenizer, [line])
    return batch["input_ids"][0].tolist(), labels[0].tolist()


def as_row(values, fill):
    return torch.tensor([row + [fill] * (max(map(len, values)) - len(row)) for row in values])


def apart(texts, pad):
    """A row for each text."""
    flat = [text for row in texts for text in row]
    ids = as_row([text[0] for text in flat], pad)
    mask = as_row([[1] * len(text[0]) for text in flat], 0)
    return {"input_ids": ids, "attention_mask": mask}, as_row([text[1] for text in flat], -100)


def together(texts, pad, first, reach):
    """Packed rows; `first`: the first position, `reach` of a sliding window or None."""
    ids = as_row([sum((text[0] for text in row), []) for row in texts], pad)
    labels = as_row([sum((text[1] for text in row), []) for row in texts], -100)
    number = as_row([[i + 1 for i, text in enumerate(row) for _ in text[0]] for row in texts], 0)
    places = as_row([[i for text in row for i in range(len(text[0]))] for row in texts], -1)
    same = (number.unsqueeze(1) == number.unsqueeze(2)).unsqueeze(1)
    mask = same
    if reach is not None:
        order = torch.arange(ids.shape[1])
        near = (order.unsqueeze(0) - order.unsqueeze(1)).abs() <= reach
        mask = {"full_attention": same, "sliding_attention": same & near}
    return {"input_ids": ids, "attention_mask": mask, "position_ids": places.clamp_min(0) + first}, labels


def batch_of(name, texts, config):
    if name.startswith("deberta"):
        return apart(texts, config.pad_token_id)
    first = config.pad_token_id + 1 if name.startswith("roberta") else 0
    reach = config.local_attention // 2 if name.startswith("modernbert") else None
    return together(texts, config.pad_token_id, first, reach)


def check(binary, folder, name):
    class_name, config_class, make, options = CASES[name]
    of_labels = class_name.endswith("TokenClassification")
    lines = write_lines(folder)
    tokenizer = tagged.make_tokenizer(folder, make, lines)
    if not of_labels:  # a separate text: without the space that words begin with
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token="<pad>")
    texts = [text_of(tokenizer, line, of_labels) for line in lines]
    rows = packed([len(ids) for ids, _ in texts])
    assert len(rows) >= hf.STEPS * hf.BATCH, len(rows)
    assert max(map(len, rows)) > 3
    torch.manual_seed(7)
    theirs = getattr(transformers, class_name)(
        getattr(transformers, config_class)(**{**options, "vocab_size": len(tokenizer)}))
    theirs.save_pretrained(folder / "theirs")
    (folder / "special_tokens_map.json").write_text(json.dumps(ROLES))
    kind = f"token_classification, labels: [{', '.join(tagged.LABELS)}]" if of_labels else "jsonl"
    data = f"{{type: {kind}, path: words.jsonl, tokenizer: tokenizer.json, max_length: {ROW}, pack: true}}"
    if not of_labels:
        data += "\n  transform: [{type: mask_tokens, share: 1, mask: 0, random: 0}]"
    (folder / "job.yaml").write_text(hf.RECIPE.replace("{type: npy, inputs: inputs.npy, targets: targets.npy}", data))
    hf.accel_run(binary, folder, "job.yaml")
    chosen = [[texts[i] for i in row] for row in rows[:hf.STEPS * hf.BATCH]]
    batches = [batch_of(name, chosen[i:i + hf.BATCH], theirs.config) for i in range(0, len(chosen), hf.BATCH)]
    losses, expected = hf.losses_of(folder / "runs/job"), tagged.train(theirs, batches)
    worst = max(abs(a - b) / b for a, b in zip(losses, expected, strict=True))
    assert worst < BOUND, (name, worst, losses, expected)
    print(f"{name}: {hf.STEPS} losses of {len(chosen)} packed rows within {worst:.1e}")


def main():
    binary = Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    for name in sys.argv[2:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            check(binary, Path(folder), name)


if __name__ == "__main__":
    main()
