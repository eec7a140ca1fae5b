#!/usr/bin/env python3
"""The golden texts of chat templates are those that transformers makes of them, and so are the tokens of
conversations.

    check_chat_templates.py [--write | ACCEL_RUN]

The templates are in the style of those that models have; what they give for the conversations is kept
in expected.json, with null where the template refuses the conversation.
"""

import datetime
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import trl
from transformers import AutoTokenizer
from transformers.utils.chat_template_utils import render_jinja_template

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/unit/text/golden/chat"
TALKS = ROOT / "recipes/tiny/data"


MESSAGES = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
    "place": {"type": "string"}, "days": {"type": "integer", "nullable": True}}}}}]


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


def render_snippet(source):
    """The text that a template of one feature writes, or None where transformers refuses it."""
    try:
        texts, _ = render_jinja_template([MESSAGES], chat_template=source, tools=TOOLS, name="Ada",
                                         tree=[{"name": "a", "kids": [{"name": "b", "kids": []}, {"name": "c"}]}])
    except Exception as error:
        print(f"  refused: {source}: {error}")
        return None
    return texts[0]


WEATHER = [{"type": "function", "function": {
    "name": "weather", "description": "Looks it up.", "parameters": {
        "type": "object", "required": ["place"], "properties": {
            "place": {"type": "string", "description": "Town"}, "days": {"type": "integer", "enum": [1, 2]},
            "more": {"type": "array", "items": {"type": "string"}}}}}}]
CALL = {"type": "function", "id": "call12345", "function": {"name": "weather", "arguments": {"place": "Köln", "days": 2}}}


def turns(*contents, system=None):
    first = [{"role": "system", "content": system}] if system else []
    return first + [{"role": "assistant" if i % 2 else "user", "content": content} for i, content in enumerate(contents)]


ROWS = [
    {"messages": turns("Hi there", "It is 🙂 good.")},
    {"messages": turns("Hi", "Yes\n", "And?", "  No.")},
    {"messages": turns("Hi", "Yes", "And <b>?", "No", system="Be brief.")},
    {"messages": [*turns("a"), {"role": "assistant", "content": "four", "reasoning_content": "2 + 2"}]},
    {"messages": turns("a", "<think>\nwhy\n</think>\n\nso", "b", "c")},
    {"messages": [*turns("Weather?"), {"role": "assistant", "content": "", "tool_calls": [CALL]},
                  {"role": "tool", "name": "weather", "tool_call_id": "call12345", "content": '{"sky": "blue"}'},
                  {"role": "assistant", "content": "Blue."}], "tools": WEATHER},
    {"messages": turns("Hi", "Yes"), "chat_template_kwargs": {"enable_thinking": False}},
    {"messages": turns("Hi", "Yes"), "tools": WEATHER},
]


def same_as_installed(accel_run, path):
    """A template that TRL installs: tokens and, with generation blocks, masks of each row. Returns the numbers of rows
    that both take, that are refused, and that differ."""
    tokenizer = AutoTokenizer.from_pretrained(TALKS / "talks")
    source = path.read_text()
    marks = re.search(r"{%-?\s*generation", source) is not None
    took = refused = differ = 0
    for number, row in enumerate(ROWS):
        try:
            theirs = tokenizer.apply_chat_template(row["messages"], tools=row.get("tools"), chat_template=source,
                                                   return_dict=True, return_assistant_tokens_mask=marks,
                                                   **row.get("chat_template_kwargs", {}))
        except Exception:  # Jinja's own, and what raise_exception raises
            theirs = None
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            done = subprocess.run([accel_run, "tokenizer", "chat", TALKS / "talks", file.name, "--template", path,
                                   "--date", datetime.date.today().isoformat()],
                                  capture_output=True, text=True, check=False)
        # Calls of tools have no content by which an answer is found in a template without generation blocks.
        if done.returncode and (theirs is None or "ambiguous" in done.stderr):
            refused += 1
            continue
        ours = json.loads(done.stdout) if done.returncode == 0 else {"ids": None}
        same = theirs is not None and ours["ids"] == theirs["input_ids"]
        if same and marks:
            same = ours["answers"] == theirs["assistant_masks"]
        took += same
        differ += not same
        if not same:
            print(f"{path.stem}, row {number}: {done.stderr or ('tokens or mask differ' if theirs else 'they refuse it')}")
    return took, refused, differ


def main():
    conversations = json.loads((GOLDEN / "conversations.json").read_text())
    found = {}
    for path in sorted(GOLDEN.glob("*.jinja")):
        print(path.name)
        found[path.stem] = [render(path.read_text(), conversation, prompt)
                            for conversation in conversations for prompt in (False, True)]
    found["snippets"] = [render_snippet(source) for source in json.loads((GOLDEN / "snippets.json").read_text())]
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
        installed = sorted((Path(trl.__file__).parent / "chat_templates").glob("*.jinja"))
        counts = [same_as_installed(accel_run, path) for path in installed]
        took, refused, differ = (sum(count) for count in zip(*counts))
        print(f"{len(installed)} templates of TRL: {took} conversations the same, {refused} refused by both or ambiguous, {differ} differ")
        same = same and differ == 0
    print("the same as transformers" if same else "FAILED")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
