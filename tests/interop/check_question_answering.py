"""Compares questions on long contexts with transformers' way of run_qa.py: windows, losses, answers and their scores.

    python tests/interop/check_question_answering.py ACCEL_RUN
"""

import collections
import json
import random
import re
import string
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

STEPS, BATCH, LR = 20, 4, 1e-3
LENGTH, STRIDE, N_BEST, LONGEST = 40, 12, 8, 6
WORDS = ("the river rose over a bridge in 1847 and an old mill fell: its wheel, of Müller & Sons, was never found again by "
         "any one naïve enough to look for it under cold grey stones near Ásvellir (north) — 東京 tower").split()
SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, hidden_dropout_prob=0.0,
             attention_probs_dropout_prob=0.0, max_position_embeddings=64)
# Configs, and whether the tokenizer is of bytes.
CASES = {
    "bert": ("BertForQuestionAnswering", "BertConfig", SIZES, False),
    "roberta": ("RobertaForQuestionAnswering", "RobertaConfig", {**SIZES, "type_vocab_size": 1, "pad_token_id": 0}, True),
    "electra": ("ElectraForQuestionAnswering", "ElectraConfig", {**SIZES, "embedding_size": 24}, False),
}

RECIPE = f"""name: job
seed: 1
model: {{type: auto, weights: theirs}}
task: {{type: question_answering, max_answer_length: {LONGEST}, n_best_size: {N_BEST}TASK}}
data:
  train: {{type: question_answering, path: train.jsonl, tokenizer: theirs, max_length: {LENGTH}, doc_stride: {STRIDE}}}
  eval: {{type: question_answering, path: eval.jsonl, tokenizer: theirs, max_length: {LENGTH}, doc_stride: {STRIDE}}}
  loader: {{shuffle: false}}
optimizer: {{type: adamw, lr: {LR}, weight_decay: 0.01}}
train: {{until: {STEPS} steps, batch: {BATCH}, max_grad_norm: none}}
eval: {{every: {STEPS} steps, batch: 5}}
accelerator: {{num_cpu_threads_per_process: 1, kernels: reference}}
"""


def accel_run(binary, folder, *words):
    done = subprocess.run([binary, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def word_tokenizer():
    pieces = sorted({piece for word in WORDS for piece in (word.lower(), word.lower()[:2], "##" + word.lower()[2:])})
    letters = sorted({letter for word in WORDS for letter in word.lower()} | set("abcdefghijklmnopqrstuvwxyz?"))
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + letters + ["##" + letter for letter in letters]
    vocab += [piece for piece in pieces if piece not in vocab]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(vocab)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer, dict(pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")


def byte_tokenizer():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {piece: i for i, piece in enumerate(["<pad>", "<s>", "</s>", "<unk>"] + alphabet + ["th", "the", "Ġo", "er"])}
    merges = [("t", "h"), ("th", "e"), ("Ġ", "o"), ("e", "r")]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1), trim_offsets=True,
                                                            add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, dict(pad_token="<pad>", unk_token="<unk>", cls_token="<s>", sep_token="</s>")


def write_tokenizer(folder, of_bytes):
    tokenizer, special = byte_tokenizer() if of_bytes else word_tokenizer()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    fast.save_pretrained(folder)
    return fast


def make_rows(seed, count, negative, most):
    """Rows of SQuAD; some share a context, some answers end it."""
    numbers = random.Random(seed)
    rows, context = [], []
    for i in range(count):
        if i % 3 == 0:
            context = [numbers.choice(WORDS) for _ in range(numbers.randint(5, most))]
        text = " ".join(context)
        answers = {"text": [], "answer_start": []}
        for _ in range(0 if negative and i % 4 == 0 else numbers.randint(1, 3)):
            first = numbers.randint(0, len(context) - 1) if i % 5 else max(0, len(context) - 2)
            answer = " ".join(context[first:first + numbers.randint(1, 3)])
            answers["text"].append(answer)
            answers["answer_start"].append(len(" ".join(context[:first] + [""])) if first else 0)
        question = "  " + " ".join(numbers.choice(WORDS) for _ in range(numbers.randint(1, 3))) + "?"
        rows.append({"id": f"q{i}", "context": text, "question": question, "answers": answers})
    return rows


def windows_of(tokenizer, rows):
    return tokenizer([row["question"].lstrip() for row in rows], [row["context"] for row in rows],
                     truncation="only_second", max_length=LENGTH, stride=STRIDE, return_overflowing_tokens=True,
                     return_offsets_mapping=True, return_token_type_ids=True)


def target_of(windows, index, row):
    """The first answer's tokens in a window, or that of [CLS] twice. The last token of a context ends the search."""
    kinds, offsets = windows.sequence_ids(index), windows["offset_mapping"][index]
    none = 0  # the place of [CLS]
    if not row["answers"]["text"]:
        return none, none
    places = [i for i, kind in enumerate(kinds) if kind == 1]
    start = row["answers"]["answer_start"][0]
    end = start + len(row["answers"]["text"][0])
    if not places or offsets[places[0]][0] > start or offsets[places[-1]][1] < end:
        return none, none
    return (max(i for i in places if offsets[i][0] <= start), min(i for i in places if offsets[i][1] >= end))


def batch_of(windows, indices, rows):
    ids = [torch.tensor(windows["input_ids"][i]) for i in indices]
    pad = torch.nn.utils.rnn.pad_sequence
    inputs = {"input_ids": pad(ids, batch_first=True, padding_value=0),
              "attention_mask": pad([torch.ones_like(i) for i in ids], batch_first=True)}
    if "token_type_ids" in windows:
        inputs["token_type_ids"] = pad([torch.tensor(windows["token_type_ids"][i]) for i in indices], batch_first=True)
    targets = [target_of(windows, i, rows[windows["overflow_to_sample_mapping"][i]]) for i in indices]
    inputs["start_positions"], inputs["end_positions"] = torch.tensor(targets).T
    return inputs


def train(model, tokenizer, rows):
    windows = windows_of(tokenizer, rows)
    order = list(range(len(windows["input_ids"])))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01)
    losses = []
    for step in range(STEPS):
        loss = model(**batch_of(windows, order[step * BATCH:(step + 1) * BATCH], rows)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def candidates_of(logits, offsets, kinds):
    """The spans of one window."""
    starts, ends = (numpy.argsort(side)[::-1][:N_BEST].tolist() for side in logits)
    for start in starts:
        for end in ends:
            if kinds[start] == 1 and kinds[end] == 1 and start <= end < start + LONGEST:
                yield (offsets[start][0], offsets[end][1]), logits[0][start] + logits[1][end]


def answers_of(model, tokenizer, rows, negative, threshold):
    """The text of each answer, the difference to no answer and the probabilities of the best ones."""
    windows = windows_of(tokenizer, rows)
    spans, nulls = collections.defaultdict(list), {}
    for i, row in enumerate(windows["overflow_to_sample_mapping"]):
        inputs = {key: torch.tensor([windows[key][i]]) for key in ("input_ids", "attention_mask", "token_type_ids")
                  if key in windows}
        with torch.no_grad():
            out = model.eval()(**inputs)
        logits = [out.start_logits[0].numpy(), out.end_logits[0].numpy()]
        spans[row] += candidates_of(logits, windows["offset_mapping"][i], windows.sequence_ids(i))
        nulls[row] = min(nulls.get(row, numpy.float32(numpy.inf)), logits[0][0] + logits[1][0])
    found = []
    for row, null in nulls.items():
        best = sorted(spans[row] + ([((0, 0), null)] if negative else []), key=lambda span: -span[1])
        best = best[:N_BEST] + [span for span in best[N_BEST:] if span[0] == (0, 0)]
        texts = [rows[row]["context"][begin:end] for (begin, end), _ in best]
        scores = numpy.array([score for _, score in best], dtype=numpy.float64)
        chances = numpy.exp(scores - max(scores, default=0))
        n_best = list(zip(texts, chances / chances.sum(), strict=True))
        first = next((i for i, text in enumerate(texts) if text), None)
        # Where no span is possible, run_qa.py answers "empty", and accel-run nothing.
        difference = 0.0 if first is None else float(null) - float(best[first][1])
        is_none = first is None or (negative and difference > threshold)
        found.append(("" if is_none else texts[first], difference, n_best))
    return found


def words_of(text):
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def score_of(prediction, references, negative):
    """Exact match and F1, the best over the references."""
    scores = []
    lists = [words_of(text) for text in references]
    for wanted in [words for words in lists if words or not negative] or [[]]:
        found = words_of(prediction)
        common = sum((collections.Counter(found) & collections.Counter(wanted)).values())
        if negative and (not found or not wanted):
            f1 = float(found == wanted)
        else:
            f1 = 2 * common / (len(found) + len(wanted)) if common else 0.0
        scores.append((float(found == wanted), f1))
    return [100 * max(column) for column in zip(*scores, strict=True)]


def expected_scores(found, rows, negative):
    scores = [score_of(text, row["answers"]["text"], negative) for (text, *_), row in zip(found, rows, strict=True)]
    groups = {"": list(range(len(rows)))}
    if negative:
        groups["HasAns_"] = [i for i, row in enumerate(rows) if row["answers"]["text"]]
        groups["NoAns_"] = [i for i, row in enumerate(rows) if not row["answers"]["text"]]
    names = ("exact", "f1") if negative else ("exact_match", "f1")
    return {prefix + name: float(numpy.mean([scores[i][side] for i in group]))
            for prefix, group in groups.items() for side, name in enumerate(names)}


def events_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def check_predictions(binary, folder, found, rows, negative):
    bare = "".join(json.dumps({key: row[key] for key in ("id", "context", "question")}) + "\n" for row in rows)
    (folder / "new.jsonl").write_text(bare)
    lines = accel_run(binary, folder, "predict", "runs/job", "--input", "new.jsonl", "--probabilities").splitlines()
    lines = [json.loads(line) for line in lines if line.startswith("{")]
    assert len(lines) == len(found), (len(lines), len(found))
    for i, (line, (text, difference, best)) in enumerate(zip(lines, found, strict=True)):
        assert (line["row"], line["id"], line["answer"]) == (i, f"q{i}", text), (line, text)
        assert ("null_score_diff" in line) == negative
        assert not negative or abs(line["null_score_diff"] - difference) < 1e-5, (line, difference)
        ours = [span["probability"] for span in line["n_best"]]
        assert numpy.allclose(ours, [chance for _, chance in best], atol=1e-5), (line, best)
        assert not best or line["n_best"][0]["text"] == best[0][0], (line, best)


def check(binary, folder, name, negative):
    class_name, config_class, options, of_bytes = CASES[name]
    tokenizer = write_tokenizer(folder / "theirs", of_bytes)
    torch.manual_seed(7)
    config = getattr(transformers, config_class)(vocab_size=len(tokenizer), **options)
    getattr(transformers, class_name)(config).save_pretrained(folder / "theirs")
    theirs = getattr(transformers, class_name).from_pretrained(folder / "theirs")
    most = 25 if of_bytes else 60
    rows, held_out = make_rows(3, 40, negative, most), make_rows(4, 23, negative, most)
    for path, some in (("train.jsonl", rows), ("eval.jsonl", held_out)):
        (folder / path).write_text("".join(json.dumps(row) + "\n" for row in some))
    threshold = -0.05
    task = f", version_2_with_negative: true, null_score_diff_threshold: {threshold}" if negative else ""
    (folder / "job.yaml").write_text(RECIPE.replace("TASK", task))
    accel_run(binary, folder, "job.yaml")
    events = events_of(folder / "runs/job")
    losses = [line["loss"] for line in events if "loss_bits" in line]
    expected = train(theirs, tokenizer, rows)
    worst = max(abs(a - b) / b for a, b in zip(losses, expected, strict=True))
    assert worst < 2e-6, (worst, losses, expected)
    accel_run(binary, folder, "export", "runs/job", "--to", "ours")
    ours = getattr(transformers, class_name).from_pretrained(folder / "ours")
    found = answers_of(ours, tokenizer, held_out, negative, threshold)
    values = next(line for line in reversed(events) if "eval/f1" in json.dumps(line))
    values = values.get("eval", values)
    for key, value in expected_scores(found, held_out, negative).items():
        assert abs(values[f"eval/{key}"] - value) < 1e-9, (key, values, value)
    check_predictions(binary, folder, found, held_out, negative)
    empty = sum(not text for text, *_ in found)
    many = len(windows_of(tokenizer, held_out)["input_ids"])
    print(f"{name}{', no answer allowed' if negative else ''}: {STEPS} losses within {worst:.1e}, {len(found)} answers from "
          f"{many} windows, {empty} empty, the same scores", flush=True)


def main():
    binary = Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    for name in sys.argv[2:] or CASES:
        for negative in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                check(binary, Path(folder), name, negative)


if __name__ == "__main__":
    main()
