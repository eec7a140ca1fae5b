#!/usr/bin/env python3
"""Files, functions, parameter lists and interfaces stay small enough to be read in one go."""

import re

import checkout

MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 5
MAX_PURE_VIRTUALS = 8

# What may stand before the '{' of a scope that holds declarations.
_SCOPE = re.compile(r"^(?:inline\s+)?(?:namespace|extern|class|struct|union|enum)\b")
_TEMPLATE = re.compile(r"^template\s*<")
_TAIL = re.compile(r"^(?:\s|const|noexcept|override|final|&|mutable|requires\b.*|->.*|:.*)*$", re.DOTALL)
_PURE = re.compile(r"\)\s*(?:const)?\s*(?:noexcept)?\s*=\s*0\s*;")


def max_lines(name):
    if name.startswith("tests/"):
        return 600
    return 200 if name.endswith(".h") else 500


def closing(text, start, opening="(", ending=")"):
    """The offset of the bracket that closes the one at start, or -1."""
    depth = 0
    for offset in range(start, len(text)):
        if text[offset] == opening:
            depth += 1
        elif text[offset] == ending:
            depth -= 1
            if depth == 0:
                return offset
    return -1


def without_template(head):
    head = head.strip()
    while _TEMPLATE.match(head):
        head = head[closing(head, head.index("<"), "<", ">") + 1:].strip()
    return re.sub(r"^(?:public|private|protected)\s*:\s*", "", head)


def parameter_list(head):
    """What stands between the brackets after a function's name, or None if this is no function."""
    head = re.sub(r"\boperator\s*\(\s*\)", "operator_call", head)
    head = re.sub(r"\boperator\s*[^\w\s(]+", "operator_symbol", head)
    start = head.find("(")
    if start <= 0 or "=" in head[:start]:
        return None
    end = closing(head, start)
    if end < 0 or not _TAIL.match(head[end + 1:]):
        return None
    return head[start + 1:end]


def count_parameters(parameters):
    if not parameters.strip():
        return 0
    # Arrows and shifts are no brackets.
    flat = re.sub(r"->|<<|>>=", "", parameters)
    depth, commas = 0, 0
    for letter in flat:
        if letter in "(<[{":
            depth += 1
        elif letter in ")>]}":
            depth -= 1
        elif letter == "," and depth == 0:
            commas += 1
    return commas + 1


def functions(source):
    """Yields (line, lines, parameters) of each function body outside other functions."""
    code = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", checkout.blank, checkout.without_text(source),
                  flags=re.MULTILINE)
    offset, head_start = 0, 0
    while offset < len(code):
        letter = code[offset]
        if letter in ";}":
            head_start = offset + 1
        elif letter == "(":
            offset = max(closing(code, offset), offset)
        elif letter == "{":
            head = without_template(code[head_start:offset])
            if _SCOPE.match(head) and parameter_list(head) is None:
                head_start = offset + 1
            else:
                end = closing(code, offset, "{", "}")
                if end < 0:
                    return
                # A brace inside an initialiser list is followed by more of the same function.
                if parameter_list(head) is not None and not code[end + 1:].lstrip().startswith(("{", ",")):
                    first = code[:offset].rstrip().count("\n") + 1
                    start = checkout.line_of(code, head_start + len(code[head_start:offset])
                                             - len(code[head_start:offset].lstrip()))
                    yield start, checkout.line_of(code, end) - min(start, first) + 1, \
                        count_parameters(parameter_list(head))
                    head_start = end + 1
                offset = end
        offset += 1


def problems_in(name, source):
    found = []
    lines = source.count("\n")
    if lines > max_lines(name):
        found.append(f"{name}: {lines} lines, at most {max_lines(name)} are allowed")
    for line, length, parameters in functions(source):
        if length > MAX_FUNCTION_LINES:
            found.append(f"{name}:{line}: a function of {length} lines,"
                         f" at most {MAX_FUNCTION_LINES} are allowed")
        if parameters > MAX_PARAMETERS:
            found.append(f"{name}:{line}: a function of {parameters} parameters,"
                         f" at most {MAX_PARAMETERS} are allowed")
    for body in re.finditer(r"\bclass\s+(\w+)[^;{]*\{.*?^\};", checkout.without_text(source),
                            re.DOTALL | re.MULTILINE):
        virtuals = len(_PURE.findall(body.group(0)))
        if virtuals > MAX_PURE_VIRTUALS:
            found.append(f"{name}: '{body.group(1)}' has {virtuals} pure virtual functions,"
                         f" at most {MAX_PURE_VIRTUALS} are allowed")
    return found


if __name__ == "__main__":
    checkout.finish([problem for name in checkout.files(".h", ".cpp")
                     for problem in problems_in(name, checkout.read(name))])
