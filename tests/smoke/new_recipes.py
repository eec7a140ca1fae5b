#!/usr/bin/env python3
"""'accel-run new' on messy data: what it prints, and that the drafted recipe is valid and trains.

    new_recipes.py ACCEL_RUN

Nothing of the data may be dropped silently: every column and field is in the printed table.
"""

import base64
import json
import os
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import zlib

import runs

RECIPES = pathlib.Path(__file__).resolve().parents[2] / "recipes"


def png(side, shade):
    """A grey image."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes([shade]) * side for _ in range(side))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def table(header, rows, delimiter=","):
    return "".join(delimiter.join(map(str, row)) + "\n" for row in ([header] if header else []) + rows)


def jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def customers(i):
    return [f"C{i:04}", "" if i % 9 == 0 else 20 + i % 50, ("basic", "gold", "pro")[i % 3],
            f"2024-{1 + i % 12:02}-{1 + i % 28:02}", ("", "NA", "n/a")[i % 3] if i % 10 == 0 else 9999 if i == 55 else i % 40 / 2,
            ("TRUE", "FALSE")[i % 2], f'"called, wrote {i}"', ("yes", "no")[i % 4 == 0]]


CUSTOMERS = table(["Customer ID", "Age (years)", "Plan type", "Signup date", "Monthly spend $", "Autopay", "Notes",
                   "Churned"], [customers(i) for i in range(120)])
WORDS = "good fine bad poor film plot cast music scene story".split()


def sentence(i):
    return " ".join(WORDS[(i * 7 + k * 3) % len(WORDS)] for k in range(6 + i % 4))


def talk(i, role="role", content="content", user="user", assistant="assistant"):
    return [{role: user, content: f"Is the {sentence(i)}?"}, {role: assistant, content: f"The {sentence(i + 1)}."}]


MESSAGES = [{"messages": talk(i)} for i in range(60)]
SHAREGPT = [{"id": str(i), "conversations": talk(i, "from", "value", "human", "gpt")} for i in range(60)]
ALPACA = [{"instruction": f"Judge {sentence(i)}", "input": sentence(i) if i % 2 else "", "output": sentence(i + 2)}
          for i in range(60)]
REVIEWS = [{"text": sentence(i), "label": ("neg", "pos")[i % 2], "id": i} for i in range(80)]
TAGGED = [{"tokens": ["Ada", "lives", "in", "Lima"], "ner_tags": ["B-PER", "O", "O", "B-LOC"]}] * 60
CONLL = "Ada B-PER\nlives O\nin O\nLima B-LOC\n\n" * 60
DPO = [{"prompt": sentence(i), "chosen": sentence(i + 1), "rejected": sentence(i + 2)} for i in range(60)]


class Case:
    """Files, the arguments after the recipe, the exit code, what is printed, and what is done with the recipe."""

    def __init__(self, name, files, words, printed=(), code=0, recipe=(), absent=(), train=False):
        self.name, self.files, self.words, self.printed, self.code = name, files, words, printed, code
        self.recipe, self.absent, self.train = recipe, absent, train


TABLES = [
    Case("numbers with marks", {"t.csv": table(["cost", "share", "rate", "price"],
                                               [[f'"{i + 1},{100 + i}.50"', f"{i}%", i / 3, i] for i in range(60)])}, ["t.csv"],
         ["left out: numbers such as '1,100.50', with characters that are no part of a number: remove these from the file", "left out: numbers such as '0%', with"]),
    Case("a target with marks", {"t.csv": table(["a", "price"], [[i, f"${i}.00"] for i in range(60)])}, ["t.csv"],
         ["column 'price' of 't.csv' cannot be predicted: numbers such as '$0.00', with characters that are no part of a number",
          "change the file, or name another column with --target"], code=3),
    Case("a target with one value", {"t.csv": table(["a", "label"], [[i, "x"] for i in range(60)])}, ["t.csv"],
         ["column 'label' of 't.csv' cannot be predicted: it is of type 'constant'",
          "numbers, or 2 to 1000 classes, can be: name the column with --target"], code=3),
    Case("a name twice", {"t.csv": table(["a", "a", "label"], [[i, -i, "xy"[i % 2]] for i in range(60)])}, ["t.csv"],
         ["'a' names several columns: the first has the name, and the others are called by their numbers, from 0"]),
    Case("a comment before the header", {"t.csv": "# made by x\n" + table(["a", "label"], [[i, "xy"[i % 2]] for i in range(60)])},
         ["t.csv"], ["t.csv:1 is a comment, and the first line of a table is a header or a row", "remove it: sed '/^#/d' 't.csv' > table.csv"], code=3),
    Case("a class with one table row", {"t.csv": table(["a", "label"], [[i, "once" if i == 7 else "xy"[i % 2]] for i in range(60)])},
         ["t.csv"], ["one sample only: 'once'"]),
    Case("customers", {"customers.csv": CUSTOMERS}, ["customers.csv"],
         ["customers.csv: 120 rows, 8 columns, delimiter ',', names in the first line",
          "column           type                  missing  use",
          "Customer ID      id                    0        left out: another value in each row",
          "Age (years)      integer               14       feature; missing values: mean",
          "Plan type        category, 3 values    0        feature, one-hot",
          "Signup date      date                  0        feature: year, month, day, weekday",
          "Monthly spend $  number                12       feature; missing values: median, as there are outliers",
          "Autopay          boolean               0        feature, 1 for true and 0 for false",
          "Notes            text                  0        left out: free text, such as 'called, wrote 0'",
          "Churned          boolean               0        target, by its name",
          "missing values are written as '', 'NA', 'n/a'",
          "predicts 'Churned' as one of 2 classes",
          "eval: 10% of the samples are held out, about 12, because there is no eval data",
          "also possible: another target: --target COLUMN",
          "also possible: the texts of column 'Notes' as input: --as classification"],
         recipe=['data: "."', 'na_values: ["", "NA", "n/a"]', '"Age (years)": mean  # 14 missing',
                 '"Monthly spend $": median  # 12 missing', 'booleans: ["Autopay"]',
                 '"Signup date": [year, month, day, weekday]', "split: {eval: 10%, seed: 0}"],
         train=True),
    Case("another target", {"customers.csv": CUSTOMERS}, ["customers.csv", "--target", "Plan type"],
         ["target, given by --target", "predicts 'Plan type' as one of 3 classes"], train=True),
    Case("no such target", {"customers.csv": CUSTOMERS}, ["customers.csv", "--target", "Plan"],
         ["'customers.csv' has no column 'Plan'", "it has the columns 'Customer ID', 'Age (years)'"], code=2),
    Case("a target that is free text", {"customers.csv": CUSTOMERS}, ["customers.csv", "--target", "Notes"],
         ["column 'Notes' of 'customers.csv' cannot be predicted: free text, such as 'called, wrote 0'",
          "change the file, or name another column with --target"], code=3),
    Case("the texts of a table", {"customers.csv": CUSTOMERS}, ["customers.csv", "--as", "classification"],
         ["Notes            text                0        text", "left out: the text is the input"],
         recipe=["# Predicts 'Churned' from the texts of column 'Notes' of customers.csv."], train=True),
    Case("texts with holes", {"t.tsv": table(["text", "label"], [["" if i == 5 else f"{sentence(i)} {i} times", "" if i == 9 else "ab"[i % 2]]
                                                                 for i in range(60)], "\t")}, ["t.tsv"],
         recipe=["on_bad_sample: skip(2)  # rows without text or target"], train=True),
    Case("semicolons, decimal commas and a byte order mark",
         {"excel.csv": "\ufeff" + table(["Maß (cm)", "Preis"], [[f"{i},5", f"{i * 2},25"] for i in range(60)], ";")},
         ["excel.csv"],
         ["excel.csv: 60 rows, 2 columns, delimiter ';', names in the first line, decimal commas, a byte order mark",
          "Maß (cm)  number  0        feature", "predicts 'Preis' as a number"],
         recipe=['delimiter: ";"', 'decimal: ","',
                 "task: {type: regression, target_mean: 59.213, target_std: 35.2887}  # of the training rows; metrics are in data units"], train=True),
    Case("commas that may be decimal marks", {"t.csv": table(["kg", "y"], [[f"{i + 1},500", i % 2] for i in range(60)], ";")},
         ["t.csv"], ["delimiter ';', names in the first line, decimal commas", "column 'kg': the comma of '1,500' is read as a "
                     "decimal mark, which is a guess; if it separates thousands, remove such commas from the file, and 'decimal' "
                     "here"], recipe=['decimal: ","'], train=True),
    Case("commas that may separate thousands", {"t.csv": table(["eur", "b", "y"], [["1,500" if i % 3 else 900 + i, i % 7, i % 2]
                                                                                   for i in range(60)], ";")},
         ["t.csv"], ["column 'eur': the comma of '1,500' is read as a separator of thousands, which is a guess; remove such "
                     "commas from the file, or, if it is a decimal mark, add 'decimal: \",\"' and the column to 'features'"]),
    Case("tabs in a .csv", {"tabs.csv": table(["a", "b", "y"], [[i, i % 7, i % 2] for i in range(60)], "\t")}, ["tabs.csv"],
         ["delimiter tab"], recipe=["type: tsv"]),
    Case("bars", {"bars.csv": table(["a", "b", "y"], [[i, i % 7, i * 1.5] for i in range(60)], "|")}, ["bars.csv"],
         ["delimiter '|'", "predicts 'y' as a number"]),
    Case("commas in a .tsv", {"t.tsv": table(["a", "b", "y"], [[i, i % 7, i * 1.5] for i in range(60)])}, ["t.tsv"],
         ["delimiter ','"], recipe=["type: csv"]),
    Case("target with missing values",
         {"t.csv": table(["a", "b", "label"], [[i, i % 7, "" if i % 10 == 3 else "xy"[i % 2]] for i in range(80)])}, ["t.csv"],
         ["label   category, 2 values  8        target, by its name; rows without it are left out"],
         recipe=['"label": drop  # rows without a target, which are left out: 8'], train=True),
    Case("dashes and None in numbers",
         {"t.csv": table(["a", "b", "y"], [["-" if i % 8 == 0 else i, "None" if i % 9 == 0 else i % 7, i * 1.5] for i in range(60)])},
         ["t.csv"], ["a       integer  8        feature; missing values: mean", "missing values are written as '-', 'None'"]),
    Case("None as a category",
         {"t.csv": table(["kind", "y"], [[("None", "Mild", "Bad")[i % 3], i * 1.5] for i in range(60)])}, ["t.csv"],
         ["column 'kind': 'None' is kept as a value; if it means missing, add it to 'na_values'"]),
    Case("missing categories",
         {"t.csv": table(["kind", "n", "y"], [[("", "Mild", "Bad", "?")[i % 4], i % 5, i * 1.5] for i in range(60)])}, ["t.csv"],
         ["kind    category, 2 values  30       feature, one-hot; missing values: mode"], recipe=['"kind": mode'], train=True),
    Case("spellings",
         {"t.csv": table(["kind", "y"], [[("Gold", "gold ", "pro")[i % 3], i * 1.5] for i in range(60)])}, ["t.csv"],
         ["column 'kind': 'Gold', 'gold ' differ only in case or spaces, and are separate values"]),
    Case("classes in several spellings",
         {"t.csv": table(["n", "y"], [[i, ("Yes", "yes", "NO")[i % 3]] for i in range(60)])}, ["t.csv"],
         ["column 'y' of 't.csv' spells its classes in several ways: 'NO', 'Yes', 'yes'", "make them the same in the file"], code=3),
    Case("constant, empty and many-valued columns",
         {"t.csv": table(["same", "none", "city", "unit", "y"],
                         [["x", "", f"city{i % 40}", f"{i} kg", i * 1.5] for i in range(400)])}, ["t.csv"],
         ["'t.csv' has no column of numbers or categories as features", "left out: the same value in every row, 'x'",
          "left out: it has no value", "left out: 40 values, more than 32", "left out: free text, such as '0 kg'"],
         code=3),
    Case("almost numbers", {"t.csv": table(["n", "m", "y"], [["unknown" if i == 9 else i, i % 3, i * 1.5] for i in range(60)])},
         ["t.csv"], ["left out: 59 of 60 values are numbers, but not 'unknown'"]),
    Case("other dates", {"t.csv": table(["when", "m", "y"], [[f"{1 + i % 28}/12/2024", i % 3, i * 1.5] for i in range(60)])},
         ["t.csv"], ["left out: dates such as '1/12/2024' are not in the form 2024-12-31"]),
    Case("dates with time and missing ones",
         {"t.csv": table(["when", "y"], [["" if i % 6 == 0 else f"2024-03-{1 + i % 28:02}T{i % 24:02}:30:00", i * 1.5] for i in range(60)])},
         ["t.csv"], ["when    date    10       feature: year, month, day, weekday, hour; missing values: median"], train=True),
    Case("no header", {"t.csv": table(None, [[i, i % 7, i * 1.5] for i in range(60)])}, ["t.csv"],
         ["no header, so columns are numbered from 0", "2       number   0        target, the last column"]),
    Case("few rows", {"t.csv": table(["a", "y"], [[i, i * 1.5] for i in range(12)])}, ["t.csv"],
         ["eval: about 2 of 12 samples are held out, too few to trust the metric: add data, or remove 'split' and 'eval'"]),
    Case("three rows", {"t.csv": table(["a", "y"], [[i, i * 1.5] for i in range(3)])}, ["t.csv"],
         ["eval: none, because 3 samples are too few to hold any out"], recipe=["# eval:"]),
    Case("train and test", {"train.csv": table(["a", "y"], [[i, i * 1.5] for i in range(60)]),
                            "test.csv": table(["a", "y"], [[i, i * 1.5] for i in range(9)])}, ["train.csv"],
         ["eval: the rows of test.csv"], absent=["split:"]),
    Case("a test file without target", {"train.csv": table(["a", "y"], [[i, i * 1.5] for i in range(60)]),
                                        "test.csv": table(["a"], [[i] for i in range(9)])}, ["train.csv"],
         ["test.csv has no column 'y', so it is not used as eval data"], recipe=["split:"]),
    Case("ragged rows", {"t.csv": "a,b\n1,2\n1,2,3\n"}, ["t.csv"], ["t.csv:3: has 3 fields, the first line has 2"], code=3),
    Case("header only", {"t.csv": "a,b\n"}, ["t.csv"], ["'t.csv' has one line, and no rows of data"], code=3),
    Case("one column", {"t.csv": "a\n1\n2\n3\n"}, ["t.csv"],
         ["'t.csv' has one column", "a target and at least one other column are needed"], code=3),
    Case("Latin-1", {"t.csv": "a,b\n1,2\n1,\xe9\n".encode("latin-1")}, ["t.csv"], ["t.csv:3 is not UTF-8"], code=3),
    Case("wishes for a table", {"t.csv": table(["a", "y"], [[i, i * 1.5] for i in range(60)])}, ["t.csv", "--as", "chat"],
         ["'--as chat' is not for tables", "'--as classification' classifies the texts of a column"], code=2),
    Case("a tokenizer for numbers", {"t.csv": table(["a", "y"], [[i, i * 1.5] for i in range(60)])},
         ["t.csv", "--tokenizer", "."], ["'--tokenizer' and '--model' are for texts, and 't.csv' is a table of features"], code=2),
    Case("no text to classify", {"t.csv": table(["a", "y"], [[i, i * 1.5] for i in range(60)])},
         ["t.csv", "--as", "classification"], ["'t.csv' has no column of free text"], code=2),
]

ROWS = [
    Case("chats", {"talks.jsonl": jsonl(MESSAGES)}, ["talks.jsonl"],
         ["talks.jsonl: 60 rows, all looked at", "messages  list of objects: content, role  0        conversation",
          "the messages of 'messages' have a 'role' and a 'content'",
          "a tokenizer is trained on the data first: accel-run tokenizer train talks.jsonl --fields content --chatml --out draft-tokenizer",
          "also possible: an existing tokenizer: --tokenizer FOLDER",
          "eval: 10% of the samples are held out, about 6"],
         recipe=["# Trains on the assistant's answers in the conversations of talks.jsonl.", "type: chat",
                 'tokenizer: "${vars.tokenizer}"', "max_length: 128  # tokens; longer ones are cut"], absent=["level: chars", "role_key"], train=True),
    Case("ShareGPT in one array", {"share.json": json.dumps(SHAREGPT, indent=1)}, ["share.json"],
         ["share.json: 60 rows in an array, all looked at", "the messages of 'conversations' have a 'from' and a 'value'",
          "id             text                          0        not used"],
         recipe=['messages: "conversations"', 'role_key: "from"', 'content_key: "value"',
                 'roles: {"gpt": assistant, "human": user}'], train=True),
    Case("alpaca", {"alpaca.json": json.dumps(ALPACA)}, ["alpaca.json"],
         ["the fields 'instruction', 'input', 'output' are a prompt and its answer"],
         recipe=["# Trains on the answers to the prompts of alpaca.json.", 'prompt: ["instruction", "input"]',
                 'completion: "output"'], train=True),
    Case("prompt and completion", {"p.jsonl": jsonl([{"prompt": sentence(i), "completion": sentence(i + 1)} for i in range(60)])},
         ["p.jsonl"], ["the fields 'prompt', 'completion' are a prompt and its answer",
                       "also possible: 'answers_only: false' trains on the prompts too",
                       "also possible: 'pack: true' puts several conversations into one sample"], train=True),
    Case("messages as prompt", {"p.jsonl": jsonl([{"prompt": talk(i)[:1], "completion": talk(i)[1:]} for i in range(60)])},
         ["p.jsonl"], ["the fields 'prompt', 'completion' are a prompt and its answer"], recipe=["answers: last"], train=True),
    Case("conversations without an assistant",
         {"t.jsonl": jsonl([{"messages": talk(i, user="ann", assistant="bob")} for i in range(60)])}, ["t.jsonl"],
         ["the conversations of 't.jsonl' have no assistant: their roles are 'ann', 'bob'"], code=3),
    Case("preference pairs", {"dpo.jsonl": jsonl(DPO)}, ["dpo.jsonl"],
         ["'chosen' and 'rejected' are preference pairs of texts", "prompt    text, 20 values  0        prompt",
          "the task is 'orpo', which also learns the chosen answers; with --model FOLDER it is 'dpo'",
          "also possible: 'texts_as_messages: true' applies the tokenizer's chat template"],
         recipe=["# Learns the preferences of dpo.jsonl.", "type: preference", "task: {type: orpo, beta: 0.1}"], train=True),
    Case("preferences of numbers", {"n.jsonl": jsonl([{"chosen": 1, "rejected": 2}] * 20)}, ["n.jsonl"],
         ["'chosen' and 'rejected' of 'n.jsonl' are neither texts nor lists of messages"], code=3),
    Case("preference conversations",
         {"dpo.jsonl": jsonl([{"chosen": talk(i), "rejected": talk(i)[:-1] + talk(i + 1)[-1:]} for i in range(60)])},
         ["dpo.jsonl"],
         ["'chosen' and 'rejected' are preference pairs of messages, whose common beginning is the prompt"],
         recipe=["type: preference", "metrics: [rewards, logps]"], train=True),
    Case("chosen answers", {"dpo.jsonl": jsonl(DPO)}, ["dpo.jsonl", "--as", "chat"],
         ["'--as chat': the prompts with the answers that were chosen", "0 not used"],
         recipe=['completion: "chosen"'], train=True),
    Case("chosen conversations",
         {"dpo.jsonl": jsonl([{"chosen": talk(i), "rejected": talk(i + 1)} for i in range(60)])}, ["dpo.jsonl", "--as", "chat"],
         ["'--as chat': the conversations that were chosen"], recipe=['messages: "chosen"']),
    Case("preference texts without a prompt",
         {"dpo.jsonl": jsonl([{"chosen": sentence(i), "rejected": sentence(i + 1)} for i in range(60)])}, ["dpo.jsonl"],
         ["'chosen' and 'rejected' are preference pairs of texts, whose common beginning is the prompt"]),
    Case("chosen texts as text", {"dpo.jsonl": jsonl([{"chosen": sentence(i), "rejected": sentence(i + 1)} for i in range(60)])},
         ["dpo.jsonl", "--as", "text"], ["'--as text': the texts that were chosen"]),
    Case("verdicts", {"kto.jsonl": jsonl([{"prompt": "a b c", "completion": "d e f", "label": True}] * 20)}, ["kto.jsonl"],
         ["the rows of 'kto.jsonl' are answers with a label, true or false (KTO), from which only a trained model learns",
          "give '--model FOLDER'; '--as chat' trains on all answers, also those labelled false"], code=3),
    Case("labelled texts", {"reviews.jsonl": jsonl(REVIEWS)}, ["reviews.jsonl"],
         ["label  text, 2 values  0        target", "id     integer         0        not used",
          "'label' is a label of 'text'", "predicts 'label' as one of 2 classes: 'neg' 40, 'pos' 40",
          "the model is small and begins without knowledge; --model FOLDER fine-tunes a pretrained one",
          "also possible: a language model of the texts: --as text", "also possible: another label: --target FIELD"],
         recipe=["# Predicts 'label' from the texts of reviews.jsonl.", "type: jsonl", "type: bert"], absent=["level: chars"], train=True),
    Case("scores", {"s.jsonl": jsonl([{"review": sentence(i), "score": i / 7} for i in range(60)])}, ["s.jsonl"],
         ["predicts 'score' as a number"], recipe=["target_type: number"], train=True),
    Case("pairs of texts",
         {"s.jsonl": jsonl([{"premise": sentence(i), "hypothesis": sentence(i + 1), "label": i % 3} for i in range(60)])}, ["s.jsonl"],
         ["'label' is a label of 'premise', 'hypothesis'"], recipe=['text: ["premise", "hypothesis"]'], train=True),
    Case("an unnamed label", {"s.jsonl": jsonl([{"text": sentence(i), "source": ("web", "book")[i % 2]} for i in range(60)])},
         ["s.jsonl", "--as", "classification", "--target", "source"], ["predicts 'source' as one of 2 classes"]),
    Case("no such field", {"s.jsonl": jsonl(REVIEWS)}, ["s.jsonl", "--target", "stars"],
         ["'s.jsonl' has no field 'stars'", "it has the fields 'text', 'label', 'id'"], code=2),
    Case("a label that is not one", {"s.jsonl": jsonl([{"text": sentence(i), "label": f"x{i} {i}"} for i in range(60)])},
         ["s.jsonl", "--as", "classification"],
         ["field 'label' of 's.jsonl' is not a label: a number, or at most 200 texts that repeat, are wanted", "name another field with --target"], code=3),
    Case("one label only", {"s.jsonl": jsonl([{"text": sentence(i), "label": "x"} for i in range(60)])}, ["s.jsonl"],
         ["field 'label' of 's.jsonl' has one value, 'x': there is nothing to tell apart"], code=3),
    Case("several labels",
         {"s.jsonl": jsonl([{"text": sentence(i), "labels": [["a", "b"], ["c"], []][i % 3]} for i in range(60)])}, ["s.jsonl"],
         ["'labels' is a list of labels of 'text'", "predicts which of the 3 labels of 'labels' a text has", "list of texts"],
         recipe=["target_type: labels", "multi_label_classification"], train=True),
    Case("numbers of labels",
         {"s.jsonl": jsonl([{"text": sentence(i), "labels": [[0, 2], [1]][i % 2]} for i in range(60)])}, ["s.jsonl"],
         ["'labels' is a list of labels of 'text'"], recipe=["target_type: labels"], train=True),
    Case("a 0 or 1 for each label",
         {"s.jsonl": jsonl([{"text": sentence(i), "labels": [[0, 1, 1], [1, 0, 0]][i % 2]} for i in range(60)])}, ["s.jsonl"],
         ["'labels' has a 0 or 1 for each label of 'text'", "predicts each number of 'labels', 0 or 1"],
         recipe=["target_type: number", "multi_label_classification"], train=True),
    Case("lists of something else", {"s.jsonl": jsonl([{"text": sentence(i), "labels": [["a"], [0.5]][i % 2]} for i in range(60)])},
         ["s.jsonl"],
         ["field 'labels' of 's.jsonl' has lists, but not in all rows lists of labels: of texts, of integers, or empty",
          "write the labels of all rows alike, or name another field with --target"], code=3),
    Case("documents", {"docs.jsonl": jsonl([{"text": " ".join(sentence(i + k) for k in range(9)), "url": f"u{i}"} for i in range(60)])},
         ["docs.jsonl"],
         ["'text' is text, and no field has the name of a label", "the texts are concatenated, so that none is cut",
          "eval: the last tenth of the texts, because there is no eval data",
          "also possible: a classifier: --as classification --target FIELD"],
         recipe=["# Language model of the texts of docs.jsonl.", "level: tokens", 'json_field: "text"',
                 "max_seq_len: 128  # tokens of context"], train=True),
    Case("tagged words", {"ner.jsonl": jsonl(TAGGED)}, ["ner.jsonl"],
         ["'ner_tags' has a tag for each word of 'tokens'"],
         recipe=["# Tags the words of ner.jsonl.", "type: token_classification", "metrics: [entity_f1, accuracy]"], train=True),
    Case("numbered tags", {"ner.jsonl": jsonl([{"words": ["a", "b", "c"], "labels": [0, 1, 0]}] * 60)}, ["ner.jsonl"],
         ["'labels' has a tag for each word of 'words'"], recipe=['words: "words"', 'tags: "labels"', "metrics: [accuracy]"],
         train=True),
    Case("tags with missing rows", {"ner.jsonl": jsonl(TAGGED + [{"tokens": ["x"]}])}, ["ner.jsonl"],
         ["rows without words or tags, with more of one than of the other, or that are not JSON: 1; remove them, they end the run"]),
    Case("token ids", {"ids.jsonl": jsonl([{"input_ids": [1, 2, 3]}] * 9)}, ["ids.jsonl"],
         ["field 'input_ids' of 'ids.jsonl' holds token ids, which are read from Parquet and Arrow files only"], code=3),
    Case("numbers as rows", {"n.jsonl": jsonl([{"x": i, "y": i * 2.5, "kind": "a"} for i in range(9)])}, ["n.jsonl"],
         ["the rows of 'n.jsonl' are numbers and categories, which are read from tables only"], code=3),
    Case("unknown rows", {"n.jsonl": jsonl([{"x": {"y": 1}}] * 9)}, ["n.jsonl"],
         ["cannot tell what the rows of 'n.jsonl' are: they have the fields 'x'"], code=3),
    Case("a wish that does not fit", {"n.jsonl": jsonl(REVIEWS)}, ["n.jsonl", "--as", "tags"],
         ["the rows of 'n.jsonl' are not read as 'tags'"], code=2),
    Case("one object over lines", {"n.json": json.dumps({"data": [1, 2]}, indent=1)}, ["n.json"],
         ["is not a JSON object", "this is one object over several lines"], code=3),
    Case("damaged rows", {"r.jsonl": jsonl(REVIEWS) + "{\n" + jsonl([{"text": "no label here"}])}, ["r.jsonl"],
         ["r.jsonl:81: is not a JSON object", "rows without a field or a text, or that are not JSON: 2; up to 2 are skipped and counted"],
         recipe=["on_bad_sample: skip(2)"], train=True),
    Case("many rows", {"r.jsonl": jsonl([{"text": sentence(i), "label": i % 3} for i in range(5000)])}, ["r.jsonl"],
         ["r.jsonl: 5000 rows, 1081 of them looked at, spread over the file"]),
    Case("no rows", {"r.jsonl": "\n"}, ["r.jsonl"], ["'r.jsonl' has no rows"], code=3),
    Case("a list in each line", {"r.jsonl": "".join(json.dumps(talk(i)) + "\n" for i in range(9))}, ["r.jsonl"],
         ["'r.jsonl' has an array in its first line, and more text in line 2", "jq -c '{messages: .}' FILE > rows.jsonl"], code=3),
    Case("an array and more", {"r.jsonl": json.dumps(REVIEWS) + "\nend\n"}, ["r.jsonl"],
         ["hint: an object in each line is wanted, or one array of objects"], code=3),
    Case("rows inside an object", {"r.json": json.dumps({"version": 1, "data": REVIEWS})}, ["r.json"],
         ["'r.json' is one object, whose rows are in the field 'data'", "write the rows alone: jq -c '.data[]' FILE > rows.jsonl"], code=3),
    Case("columns", {"r.json": json.dumps({"text": ["a", "b"], "label": [0, 1]})}, ["r.json"],
         ["'r.json' is one object with a list for each column"], code=3),
    Case("lines with commas", {"r.jsonl": jsonl(REVIEWS).replace("}\n", "},\n")}, ["r.jsonl"],
         ["the lines end with a comma: remove the commas"], code=3),
    Case("NaN", {"r.jsonl": '{"text": "a b c", "label": NaN}\n' * 3}, ["r.jsonl"], ["JSON has no 'NaN': write null"], code=3),
    Case("Latin-1 rows", {"r.jsonl": '{"text": "caf\u00e9", "label": 1}\n'.encode("latin-1")}, ["r.jsonl"],
         ["it is not UTF-8; convert it: iconv -f latin1 -t utf-8 'r.jsonl' > utf8.jsonl"], code=3),
    Case("labels of two types", {"r.jsonl": jsonl([{"text": sentence(i), "label": i % 2 if i % 3 else str(i % 2)} for i in range(60)])},
         ["r.jsonl"], ["field 'label' of 'r.jsonl' is a text in 20 rows and a number in 40"], code=3),
    Case("a label that is none", {"r.jsonl": jsonl([{"text": sentence(i), "label": f"id {i} of {sentence(i)}"} for i in range(60)])},
         ["r.jsonl"], ["'text' is text, and 'label' is no label: a number, or texts that repeat, are wanted"]),
    Case("a label without a usual name", {"r.jsonl": jsonl([{"text": sentence(i), "toxic": i % 2 == 0} for i in range(60)])},
         ["r.jsonl"], ["also possible: a classifier by 'toxic': --as classification --target toxic"]),
    Case("a class with one row", {"r.jsonl": jsonl(REVIEWS + [{"text": "once", "label": f"odd{i}"} for i in range(7)])}, ["r.jsonl"],
         ["one sample only: 'odd0', 'odd1', 'odd2', 'odd3', 'odd4', and 2 more classes; "
          "a class needs several to be learnt and to be evaluated"]),
    Case("summaries", {"r.jsonl": jsonl([{"article": sentence(i) * 3, "summary": sentence(i)} for i in range(60)])}, ["r.jsonl"],
         ["the fields 'article', 'summary' are a prompt and its answer"]),
    Case("tags of other lengths", {"r.jsonl": jsonl([{"tokens": ["a", "b"], "ner_tags": [0, 1][:1 + (i != 5)]} for i in range(60)])},
         ["r.jsonl"], ["rows without words or tags, with more of one than of the other, or that are not JSON: 1; remove them, they end the run"]),
    Case("parts of messages", {"r.jsonl": jsonl([{"messages": [{"role": "user", "content": [{"type": "image_url"}]},
                                                               {"role": "assistant", "content": "no"}]}] * 9)}, ["r.jsonl"],
         ["the messages of 'messages' in 'r.jsonl' have a 'content' that is no text in 9 of 18",
          "texts are wanted: images and other parts of a message are not read; join parts of type 'text'"], code=3),
    Case("messages with tool calls", {"r.jsonl": jsonl([{"messages": [{"role": "user", "content": "a"},
                                                                      {"role": "assistant", "content": None, "tool_calls": []}]}] * 9)},
         ["r.jsonl"], ["the messages of 'messages' in 'r.jsonl' call tools, which the chat template of a new tokenizer leaves out",
                       "name a tokenizer whose template writes them: --tokenizer FOLDER, or --model FOLDER"], code=3),
    Case("messages with other keys", {"r.jsonl": jsonl([{"dialog": talk(i, "speaker", "said")} for i in range(9)])}, ["r.jsonl"],
         ["the messages of 'dialog' in 'r.jsonl' have a 'speaker' and a 'said', and which is their text is not known",
          "write the recipe by hand with 'messages: dialog', 'role_key: speaker', 'content_key: said': see docs/chat.md"], code=3),
    Case("rows in a .txt", {"r.txt": jsonl(MESSAGES)}, ["r.txt"],
         ["'r.txt' is not plain text: it has a JSON object in each line", "rename it: mv 'r.txt' 'r.jsonl'"], code=3),
    Case("a comma too many", {"r.jsonl": '{"text": "a b c", "label": 1,}\n'}, ["r.jsonl"], ["JSON has no comma before '}'"], code=3),
    Case("Parquet", {"r.parquet": b"PAR1"}, ["r.parquet"], ["'r.parquet'"], code=3),
    Case("train and validation rows", {"train.jsonl": jsonl(REVIEWS), "validation.jsonl": jsonl(REVIEWS[:9])}, ["."],
         ["eval: the rows of validation.jsonl"], absent=["split:"]),
]

# 4 x 3 pixels with the EXIF orientation 6.
TURNED_JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/4QAiRXhpZgAATU0AKgAAAAgAAQESAAMAAAABAAYAAAAAAAD/2wBDABsSFBcUERsXFhceHBsg"
    "KEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWGkJ6jq62rZ4C8ybqmx5moq6T/2wBDARweHigjKE4rK06kbl1upKSkpKSk"
    "pKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKT/wAARCAADAAQDASIAAhEBAxEB/8QAFQABAQAAAAAA"
    "AAAAAAAAAAAAAAX/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFQEBAQAAAAAAAAAAAAAAAAAABAX/xAAUEQEAAAAAAAAAAAAAAAAA"
    "AAAA/9oADAMBAAIRAxEAPwCaAMtv/9k=")

GREY = {f"pics/{kind}/{i}.png": png(12, shade + i) for kind, shade in (("red cats", 20), ("blue dogs", 200)) for i in range(30)}
IMAGES = [
    Case("images without a val folder", GREY, ["pics"],
         ["60 images by class: 'blue dogs' 30, 'red cats' 30", "sizes of 20 opened images: equal, up to 12 pixels a side",
          "eval: 10% of the samples are held out, about 6"], recipe=["split: {eval: 10%, seed: 0}"], train=True),
    Case("images for a model of texts", {**GREY, "bert/config.json": '{"model_type": "bert"}'}, ["pics", "--model", "bert"],
         ["'--model bert' is a 'bert' model, which classifies no images", "name the folder of a ViT or ResNet"], code=2),
    Case("images with a val folder",
         {**{"pics/train/" + name[5:]: data for name, data in GREY.items()}, "pics/val/red cats/1.png": png(30, 9),
          "pics/val/blue dogs/1.png": png(12, 9)}, ["pics"],
         ["eval: the 2 images of folder 'val'", "sizes of 22 opened images: different"], absent=["split: {eval"]),
    Case("a class of val alone", {**{"pics/train/" + name[5:]: data for name, data in GREY.items()}, "pics/val/fish/1.png": png(12, 9)},
         ["pics"], ["folder 'val' has the class 'fish', which has no training images"], code=3),
    Case("train without val", {"pics/train/" + name[5:]: data for name, data in GREY.items()}, ["pics"],
         ["training images: folder 'train'"], recipe=["split: train", "split: {eval: 10%"]),
    Case("mixed sizes and a stray file", {**GREY, "pics/red cats/big.png": png(90, 7), "pics/notes.txt": "x"}, ["pics"],
         ["sizes of 21 opened images: different, up to 90 pixels a side", "images are resized to 64 x 64, because all must have one size",
          "read: pics; not read: notes.txt"], recipe=["size: [64, 64]"]),
    Case("one class", {name: data for name, data in GREY.items() if "cats" in name}, ["pics"],
         ["'pics' has images of one class only, 'red cats'"], code=3),
    Case("images without folders", {"pics/1.png": png(12, 9), "pics/2.png": png(12, 9)}, ["pics"],
         ["the images in 'pics' are not in class folders"], code=3),
    Case("another image format", {"pics/a/1.gif": b"GIF89a"}, ["pics"],
         ["unknown format of 'pics'", "'a/1.gif' is neither a JPEG nor a PNG image: convert it, such as by 'mogrify -format png FILE'"], code=3),
    Case("split folders in capitals", {name.replace("pics/", f"pics/{split}/"): data for name, data in GREY.items()
                                       for split in ("Train", "Validation")}, ["pics"],
         ["60 images by class: 'blue dogs' 30, 'red cats' 30", "eval: the 60 images of folder 'Validation'"],
         recipe=["split: Train", "split: Validation"], train=True),
    Case("test images without classes", {**{"pics/train/" + name[5:]: data for name, data in GREY.items()}, "pics/test/1.png": png(12, 9)},
         ["pics"], ["folder 'test' is not read: its images are not in class folders"], recipe=["split: {eval: 10%"]),
    Case("class folders one level down", {name.replace("pics/", "pics/2024/"): data for name, data in GREY.items()}, ["pics"],
         ["'pics' has images of one class only, '2024'",
          "it has 2 folders: if they are the classes, name 'pics/2024' in place of 'pics'"], code=3),
    Case("a truncated image", {**GREY, "pics/blue dogs/0.png": png(12, 200)[:60]}, ["pics"],
         ["1 of 20 opened images are damaged: such images are skipped and counted, and more than twice as many are an error"],
         recipe=["on_bad_sample: skip(6)"], train=True),
    Case("a class with one image", {**GREY, "pics/odd/1.png": png(12, 90)}, ["pics"], ["one sample only: 'odd'"]),
    Case("a compressed file", {"t.csv.gz": b"\x1f\x8b"}, ["t.csv.gz"], ["'t.csv.gz' is compressed",
         "decompress it first: gunzip --keep 't.csv.gz'"], code=3),
    Case("a table in a .txt", {"t.txt": table(["a", "b", "label"], [[i, i * i, "xy"[i % 2]] for i in range(60)], "\t")}, ["t.txt"],
         ["'t.txt' is not plain text: it has the fields of a table in each line", "rename it: mv 't.txt' 't.csv'"], code=3),
    Case("numbers between spaces", {"t.data": "".join(f"  {i / 7:.3f}   {i * i}\t{i % 3}\n" for i in range(60))}, ["t.data"],
         ["'t.data' is not plain text: it has numbers between spaces in each line", "write commas: sed 's/^ *//; "
          "s/[[:space:]]*$//; s/[[:space:]][[:space:]]*/,/g' 't.data' > 't.csv'"], code=3),
    Case("a broken image", {**GREY, "pics/blue dogs/0.png": b"\x89PNG\r\n\x1a\n"}, ["pics"],
         ["0.png' is a damaged PNG", "1 of 20 opened images are damaged"], recipe=["on_bad_sample: skip(6)"], train=True),
    Case("a carriage return alone", {"t.csv": CUSTOMERS.replace("\n", "\r")}, ["t.csv"],
         ["the lines of 't.csv' end with a carriage return alone", "tr '\\r' '\\n' < 't.csv' > table.csv"], code=3),
    Case("two comments above", {"t.csv": "# a\n# b\n" + CUSTOMERS}, ["t.csv"], ["t.csv:1 is a comment"], code=3),
    Case("spaces after commas", {"t.csv": 'a, b, y\n' + "".join(f'{i}, "{"xyz"[i % 3]}, {i % 3}", {"uv"[i % 2]}\n' for i in range(60))}, ["t.csv"],
         ["t.csv: 60 rows, 3 columns, delimiter ',', names in the first line, spaces after delimiters are skipped"],
         recipe=["skip_initial_space: true", '"b": ["x, 0", "y, 1", "z, 2"]', 'target: "y"'], train=True),
    Case("infinite numbers", {"t.csv": table(["a", "b", "label"], [[i / 3, ("inf", "-Infinity", "1e400")[i % 10] if i % 10 < 3 else i, "xy"[i % 2]] for i in range(60)])},
         ["t.csv"], ["column 'b': '-Infinity', '1e400', 'inf' are no finite numbers, and are missing values",
                     "b integer 18 feature; missing values: mean"], recipe=['"b": mean  # 18 missing'], train=True),
    Case("postal codes", {"t.csv": table(["zip", "a", "many", "label"], [[f"0{i % 7}123", i, f"00{i}", "xy"[i % 2]] for i in range(60)])},
         ["t.csv"], ["column 'zip': values such as '00123' have leading zeros, and are codes rather than numbers",
                     "zip category, 7 values 0 feature, one-hot", "left out: codes such as '000', more than 32 of them"], train=True),
    Case("an unnamed index", {"t.csv": table(["", "a", "label"], [[i, i / 3, "xy"[i % 2]] for i in range(60)])}, ["t.csv"],
         ["left out: row numbers, of a column without a name"], train=True),
    Case("imbalanced classes", {"t.csv": table(["a", "label"], [[i, "rare" if i % 20 == 0 else "common"] for i in range(100)])}, ["t.csv"],
         ["imbalanced classes: 95 samples of 'common', 5 of 'rare'; always predicting 'common' has an accuracy of 0.95, so f1, "
          "which counts all classes alike, is measured too",
          "also possible: the same weight of all classes in the loss: 'task: {type: classification, class_weights: [0.526, 10]}'"],
         recipe=["metrics: [accuracy, f1]"], train=True),
    Case("imbalanced texts", {"r.jsonl": jsonl([{"text": sentence(i), "label": int(i % 20 == 0)} for i in range(80)])}, ["r.jsonl"],
         ["imbalanced classes: 76 samples of '0', 4 of '1'", "class_weights: [0.526, 10]"], recipe=["metrics: [accuracy, f1]"], train=True),
    Case("prices of texts", {"r.jsonl": jsonl([{"text": sentence(i), "price": 1000.5 * (i + 1)} for i in range(80)])},
         ["r.jsonl", "--target", "price"], ["predicts 'price' as a number"],
         recipe=["task: {type: regression, target_mean: 39756, target_std: 23551.3}"], train=True),
    Case("UTF-16 rows", {"r.jsonl": jsonl(REVIEWS).encode("utf-16")}, ["r.jsonl"],
         ["it is UTF-16; convert it: iconv -f utf-16 -t utf-8 'r.jsonl' > utf8.jsonl"], code=3),
    Case("turned photos", {**GREY, **{f"pics/red cats/{i}.jpg": TURNED_JPEG for i in range(60)}}, ["pics"],
         ["15 of 20 opened images have an EXIF orientation, which is not applied, as in torchvision: "
                   "'exif_orientation: true' turns them"]),
    Case("several files in a folder", {"d/b.csv": "x,y\n" * 3, "d/a.csv": table(["a", "y"], [[i, i * 1.5] for i in range(60)]),
                                       "d/readme.md": "x"}, ["d"], ["read: a.csv; not read: b.csv, readme.md"]),
    Case("an empty folder", {"d/.keep": ""}, ["d"], ["unknown format of 'd'"], code=3),
    Case("plain text", {"poem.txt": "roses are red, violets are blue\n" * 60}, ["poem.txt"],
         ["poem.txt: plain text of 1920 bytes, read as UTF-8 characters", "eval: the last tenth of the file",
          "also possible: tokens in place of characters: accel-run tokenizer train poem.txt --out tokenizer, then "
          "'level: tokens' and 'tokenizer'"], train=True),
    Case("a CoNLL file", {"ner.txt": CONLL}, ["ner.txt"],
         ["ner.txt: CoNLL format, 60 sentences of 240 words, 2 columns", "0 4 Ada words", "1 3 B-PER tags",
          "predicts the tag of each word, one of 3: 'B-LOC' 60, 'B-PER' 60, 'O' 120",
          "accel-run tokenizer train ner.txt --fields 0 --model wordpiece --cased --out draft-tokenizer",
          "eval: 10% of the samples are held out, about 6", "also possible: a language model of the file's characters: --as text"],
         recipe=["type: conll", 'labels: ["B-LOC", "B-PER", "O"]', "task: token_classification", "metrics: [entity_f1, accuracy]"],
         absent=["level: chars"], train=True),
    Case("a CoNLL file of four columns with eval data",
         {"train.conll": "-DOCSTART- -X- -X- O\n\n" + "EU NNP B-NP B-ORG\n. . O O\n\n" * 20, "dev.conll": "EU NNP B-NP B-PER\n\n"},
         ["train.conll", "--target", "3"], ["eval: the sentences of dev.conll", "the tags of another column: --target NUMBER"],
         recipe=["tag_column: 3", 'labels: ["B-ORG", "B-PER", "O"]'], train=True),
    Case("tab-separated words with tags", {"pos.tsv": CONLL.replace(" ", "\t").replace("B-", "").replace("I-", "")}, ["pos.tsv"],
         ["pos.tsv: CoNLL format, 60 sentences"], recipe=["type: conll", "metrics: [accuracy]"], train=True),
    Case("CoNLL-U", {"x.conllu": ("# sent_id = 1\n1-2\tdel\t" + "_\t" * 7 + "_\n1\tde\tde\tADP\t_\t_\t2\tcase\t_\t_\n"
                                  "2\tel\tel\tDET\t_\t_\t0\troot\t_\t_\n\n") * 20}, ["x.conllu"],
         ["x.conllu: CoNLL-U format, 20 sentences of 40 words, 10 columns", "one of 2: 'ADP' 20, 'DET' 20"],
         recipe=["word_column: 1", "tag_column: 3", 'comment: "#"'], train=True),
    Case("a CoNLL line without a tag", {"ner.txt": CONLL + "Ada\n"}, ["ner.txt"],
         ["ner.txt:301 has 1 of 2 columns", "a word and its tags are wanted in each line, and a blank line between sentences"], code=3),
    Case("CoNLL in another encoding", {"ner.txt": CONLL.encode() + "Zo\xeb B-PER\n".encode("latin1")}, ["ner.txt"],
         ["ner.txt:301 is not UTF-8", "convert it: iconv -f latin1 -t utf-8 ner.txt > utf8.txt"], code=3),
    Case("CoNLL tags of the words", {"ner.txt": CONLL}, ["ner.txt", "--target", "0"],
         ["'--target 0': no column of tags of 'ner.txt'", "the columns are numbered from 0 to 1, and 0 has the words"], code=2),
    Case("a CoNLL column of one value", {"ner.txt": CONLL.replace(" ", " _ ")}, ["ner.txt", "--target", "1"],
         ["column 1 of 'ner.txt' has one value: 2 to 1000 tags can be predicted", "name another column with --target"], code=3),
    Case("CoNLL as text", {"ner.txt": CONLL}, ["ner.txt", "--as", "text"], ["ner.txt: plain text of"], recipe=["level: chars"]),
    Case("CoNLL as chat", {"ner.txt": CONLL}, ["ner.txt", "--as", "chat"],
         ["'--as chat' is not for 'ner.txt', a CoNLL file"], code=2),
    Case("a wish for plain text", {"poem.txt": "roses are red, violets are blue\n" * 60}, ["poem.txt", "--as", "chat"],
         ["'--as' is for tables, JSON rows and CoNLL files, and 'poem.txt' is none of them"], code=2),
    Case("no data", {}, ["nothing.csv"], ["'nothing.csv' does not exist"], code=3),
]


def write_files(folder, files):
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())


def call(binary, folder, *words):
    """(exit code, standard output and error)."""
    result = subprocess.run([binary, *words], cwd=folder, text=True, env=runs.ENVIRONMENT, check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return result.returncode, result.stdout


def same_but_spaces(text):
    return re.sub(r" +", " ", text)


def check_drafted(case, binary, folder, printed, report):
    """The recipe has what was printed, is valid, and trains where that is asked for."""
    recipe = (folder / "draft.yaml").read_text()
    for wanted in case.recipe:
        report.check(f"{case.name}: the recipe has '{wanted}'", wanted in recipe, recipe)
    for other in case.absent:
        report.check(f"{case.name}: the recipe has no '{other}'", other not in recipe, recipe)
    first = re.search(r"first run: accel-run (.*)", printed)
    if "tokenizer:" in recipe:
        report.check(f"{case.name}: says what comes first", "wrote draft.yaml; first run: accel-run tokenizer train" in printed
                     and "then: accel-run draft.yaml" in printed, printed)
    if first:
        code, output = call(binary, folder, *shlex.split(first.group(1)))
        report.check(f"{case.name}: the command that comes first", code == 0, output)
    code, output = call(binary, folder, "validate", "draft.yaml")
    report.check(f"{case.name}: the recipe is valid", code == 0, output + recipe)
    if not case.train:
        return
    code, output = call(binary, folder, "draft.yaml", "train.until=2 steps", "accelerator.num_cpu_threads_per_process=1",
                        "eval.every=2 steps", "~trackers")
    report.check(f"{case.name}: it trains", code == 0, output + recipe)
    report.check(f"{case.name}: it evaluates", "eval at step 2" in output, output)


def check_case(case, binary, report):
    with runs.Scratch(binary) as scratch:
        folder = scratch.path / "work"
        folder.mkdir()
        write_files(folder, case.files)
        code, printed = call(scratch.binary, folder, "new", "draft.yaml", *case.words)
        report.check(f"{case.name}: exit {case.code}", code == case.code, printed)
        for line in case.printed:
            report.check(f"{case.name}: prints '{line}'", same_but_spaces(line) in same_but_spaces(printed), printed)
        drafted = (folder / "draft.yaml").exists()
        report.check(f"{case.name}: a recipe is {'written' if case.code == 0 else 'not written'}", drafted == (code == 0))
        if drafted and code == 0:
            check_drafted(case, scratch.binary, folder, printed, report)


def check_folders(binary, report):
    """--model and --tokenizer, and a recipe that is moved with its data."""
    with runs.Scratch(binary) as scratch:
        folder = scratch.path
        write_files(folder, {"talks.jsonl": jsonl(MESSAGES), "reviews.jsonl": jsonl(REVIEWS), "empty/x": "",
                             "bad/config.json": "{}", "bert/config.json": '{"model_type": "bert"}',
                             "opt/config.json": '{"model_type": "opt"}', "ner.txt": CONLL,
                             "kto.jsonl": jsonl([{"prompt": "a b c", "completion": " d", "label": i % 2 == 0} for i in range(40)])})
        talker = RECIPES / "tiny/data/talker"
        gpt2, talks = RECIPES / "tiny/data/gpt2", RECIPES / "tiny/data/talks"
        for words, code, line in (
                (["talks.jsonl", "--tokenizer", talks], 0, "eval: 10% of the samples"),
                (["talks.jsonl", "--tokenizer", "empty"], 2, "there is no 'tokenizer.json' in 'empty'"),
                (["talks.jsonl", "--model", "empty"], 2, "'--model empty': there is no 'empty/config.json'"),
                (["talks.jsonl", "--model", "bad"], 3, "'bad/config.json' has no 'model_type'"),
                (["talks.jsonl", "--model", "bert"], 2, "'bert' is a bert model, which does not predict next tokens"),
                (["reviews.jsonl", "--model", gpt2, "--tokenizer", talks], 0,
                 "a gpt2 model predicts next tokens: its head is replaced by a new one for classes"),
                (["ner.txt", "--model", gpt2, "--tokenizer", talks], 0,
                 "a gpt2 model predicts next tokens: its head is replaced by a new one for labels"),
                (["ner.txt", "--model", "opt"], 2, "'opt' is a opt model, of which transformers has no token classification"),
                (["kto.jsonl", "--model", talker, "--tokenizer", talks], 0,
                 "'prompt', 'completion' and 'label' are labelled answers of texts"),
                (["reviews.jsonl", "--as", "text", "--model", gpt2, "--tokenizer", talks], 0, "'--as text'"),
                (["talks.jsonl", "--tokenizer", RECIPES / "tiny/data/reviews_tokenizer.json"], 2, "tokenizer.json' has no chat template")):
            made = folder / "made.yaml"
            made.unlink(missing_ok=True)
            got, printed = call(scratch.binary, folder, "new", "made.yaml", *words)
            name = " ".join(map(str, words))
            report.check(f"{name}: exit {code}", got == code, printed)
            report.check(f"{name}: prints '{line}'", line in printed, printed)
            report.check(f"{name}: {'a' if code == 0 else 'no'} recipe", made.exists() == (code == 0))
            if code == 0:
                got, printed = call(scratch.binary, folder, "validate", "made.yaml")
                report.check(f"{name}: valid", got == 0, printed + made.read_text())
            if code == 0 and words[0] == "kto.jsonl":
                report.check("labelled answers: title", "# Learns which answers of kto.jsonl are desirable." in made.read_text())
        (folder / "sub").mkdir()
        write_files(folder, {"sub/data/t.csv": CUSTOMERS})
        call(scratch.binary, folder, "new", "sub/t.yaml", "--data", "sub/data/t.csv")
        os.rename(folder / "sub", folder / "moved")
        got, printed = call(scratch.binary, folder, "moved/t.yaml", "train.until=1 steps", "~trackers")
        report.check("a recipe is moved with its data", got == 0, printed)
        got, printed = call(scratch.binary, folder, "new", "moved/t.yaml", "moved/data/t.csv")
        report.check("nothing is overwritten", got == 2 and "already exists" in printed, printed)


def check_names(binary, report):
    """Data and recipe in any order; without a recipe's name it is the data's."""
    with runs.Scratch(binary) as scratch:
        folder = scratch.path
        write_files(folder, {"in/people.csv": CUSTOMERS, "in/class.v2/a/1.png": png(16, 9), "in/class.v2/b/1.png": png(16, 90),
                             "in/class.v2/a/2.png": png(16, 19), "in/class.v2/b/2.png": png(16, 99)})
        for words, code, made in (
                (["in/people.csv"], 0, "people.yaml"),
                (["in/class.v2/"], 0, "class.v2.yaml"),
                (["in/people.csv", "swapped.yml"], 0, "swapped.yml"),
                (["--data", "in/people.csv"], 2, "error: 'people.yaml' already exists"),
                (["in/people.csv", "people"], 2, "error: the recipe 'people' does not end with .yaml\n  hint: call it 'people.yaml'"),
                ([], 2, "error: neither data nor a recipe is named\n  hint: give the data: accel-run new FILE_OR_FOLDER, or only "
                 "a name: new first.yaml"),
                (["none.csv"], 3, "error: 'none.csv' does not exist\n  hint: give a file or folder of data; the name of a recipe "
                 "ends with .yaml")):
            got, printed = call(scratch.binary, folder, "new", *words)
            name = "new " + " ".join(words)
            report.check(f"{name}: exit {code}", got == code, printed)
            if code:
                report.check(f"{name}: says why", made in printed, printed)
            else:
                report.check(f"{name}: writes {made}", (folder / made).exists() and f"wrote {made}; run it with" in printed, printed)


def check_tokenizers(binary, report):
    """--fields and --chatml of 'tokenizer train'."""
    with runs.Scratch(binary) as scratch:
        write_files(scratch.path, {"r.jsonl": jsonl(REVIEWS), "t.csv": CUSTOMERS, "bad.jsonl": "{\n", "x.txt": "a b"})
        for words, code, line in (
                (["r.jsonl", "--fields", "text"], 0, "made: "),
                (["t.csv", "--fields", "Notes,Plan type"], 0, "made: "),
                (["r.jsonl", "--fields", "body"], 3, "'r.jsonl' has no field 'body'"),
                (["t.csv", "--fields", "body"], 3, "'t.csv' has no field 'body'"),
                (["bad.jsonl", "--fields", "text"], 3,
                 "rows of 'bad.jsonl' that are not JSON objects are left out: 1, the first in line 1"),
                (["x.txt", "--fields", "text"], 3, "'--fields' is for .jsonl, .json, .csv, .tsv, .parquet, .arrow and CoNLL files, not 'x.txt'"),
                (["r.jsonl", "--model", "wordpiece", "--chatml"], 2, "'--chatml' is an option of --model bpe")):
            subprocess.run(["rm", "-rf", "made"], cwd=scratch.path, check=True)
            got, printed = call(scratch.binary, scratch.path, "tokenizer", "train", *words, "--out", "made")
            report.check("tokenizer train " + " ".join(words), got == code and line in printed, printed)


def check_prices(binary, report):
    """Large targets are learnt with the drafted recipe, and predicted in their own units."""
    with runs.Scratch(binary) as scratch:
        homes = [[20 + i % 180, 1 + i % 6, 3000 * (20 + i % 180)] for i in range(200)]
        write_files(scratch.path, {"homes.csv": table(["sqm", "rooms", "price"], homes), "one.csv": "sqm,rooms\n100,3\n"})
        call(scratch.binary, scratch.path, "new", "homes.yaml", "homes.csv")
        got, printed = call(scratch.binary, scratch.path, "homes.yaml", "~trackers")
        report.check("prices are trained on", got == 0, printed)
        got, printed = call(scratch.binary, scratch.path, "predict", "runs/homes", "--input", "one.csv")
        found = re.search(r'"prediction":([0-9.]+)', printed)
        report.check("prices are predicted", bool(found) and abs(float(found[1]) - 300000) < 30000, printed)
        # Texts, of which those to be predicted have no price.
        write_files(scratch.path, {"ads.jsonl": jsonl([{"text": sentence(i), "price": 90000 + 100 * i} for i in range(60)]),
                                   "one.jsonl": jsonl([{"text": sentence(3)}])})
        call(scratch.binary, scratch.path, "new", "ads.jsonl", "--target", "price")
        call(scratch.binary, scratch.path, "tokenizer", "train", "ads.jsonl", "--fields", "text", "--out", "ads-tokenizer")
        got, printed = call(scratch.binary, scratch.path, "ads.yaml", "train.until=2 steps", "~trackers")
        report.check("prices of texts are trained on", got == 0, printed)
        got, printed = call(scratch.binary, scratch.path, "predict", "runs/ads", "--input", "one.jsonl")
        found = re.search(r'"prediction":([0-9.]+)', printed)
        report.check("prices of texts are predicted", bool(found) and 80000 < float(found[1]) < 110000, printed)


def main():
    report = runs.Report()
    wanted = sys.argv[2:]
    for case in TABLES + ROWS + IMAGES:
        if not wanted or case.name in wanted:
            check_case(case, sys.argv[1], report)
    if not wanted:
        check_names(sys.argv[1], report)
        check_folders(sys.argv[1], report)
        check_tokenizers(sys.argv[1], report)
        check_prices(sys.argv[1], report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
