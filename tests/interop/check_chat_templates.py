#!/usr/bin/env python3
"""The golden texts of chat templates are those that transformers makes of them, and so are the tokens of
conversations.

    check_chat_templates.py [--write | ACCEL_RUN]

The templates are in the style of those that models have; what they give for the conversations is kept
in expected.json, with null where the template refuses the conversation.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from transformers import AutoTokenizer
from transformers.utils.chat_template_utils import render_jinja_template

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/unit/text/golden/chat"
TALKS = ROOT / "recipes/tiny/data"


def render(template, conversation, prompt):
    variables = {name: value for name, value in conversation.items() if name != "messages"}
    try:
        texts, _ = render_jinja_template([conversation["messages"]], chat_template=template,
                                         add_generation_prompt=prompt, bos_token="<s>", eos_token="</s>", **variables)
    except Exception as error:  # Jinja's own, and what raise_exception raises
        print(f"  refused: {error}")
        return None
    return texts[0]


def same_tokens(accel_run, chat_template):
    """By each template, where transformers takes the conversation."""
    tokenizer = AutoTokenizer.from_pretrained(TALKS / "talks")
    template = chat_template.read_text() if chat_template else tokenizer.chat_template
    rows = [json.loads(line) for line in (TALKS / "talks.jsonl").read_text().splitlines()]
    theirs = [tokenizer.apply_chat_template(row["messages"], chat_template=template, tokenize=True, return_dict=True)
              for row in rows]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))
        file.flush()
        words = ["--template", chat_template] if chat_template else []
        done = subprocess.run([accel_run, "tokenizer", "chat", TALKS / "talks", file.name, *words],
                              capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{chat_template}: exit {done.returncode}: {done.stderr}")
        return False
    ours = [json.loads(line) for line in done.stdout.splitlines()]
    answers = ["".join(tokenizer.decode([i for i, is_answer in zip(line["ids"], line["answers"]) if is_answer]))
               for line in ours]
    print(f"{chat_template.name if chat_template else 'its own'}: {answers[0]!r}")
    said = all(message["content"] in answer for row, answer in zip(rows, answers)
               for message in row["messages"] if message["role"] == "assistant")
    return said and [line["ids"] for line in ours] == [their["input_ids"] for their in theirs]


def main():
    conversations = json.loads((GOLDEN / "conversations.json").read_text())
    found = {}
    for path in sorted(GOLDEN.glob("*.jinja")):
        print(path.name)
        found[path.stem] = [render(path.read_text(), conversation, prompt)
                            for conversation in conversations for prompt in (False, True)]
    text = json.dumps(found, ensure_ascii=False, indent=1) + "\n"
    target = GOLDEN / "expected.json"
    if "--write" in sys.argv[1:]:
        target.write_text(text)
        return 0
    same = target.read_text() == text
    print("the golden texts are transformers'" if same else f"{target} differs: run with --write")
    for accel_run in sys.argv[1:]:
        # That of Qwen 3 changes earlier answers, and what it does to the last one is another test's.
        for path in [None, *(path for path in sorted(GOLDEN.glob("*.jinja")) if path.stem not in ("qwen3", "marked"))]:
            same = same_tokens(accel_run, path) and same
    print("the same as transformers" if same else "FAILED")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
