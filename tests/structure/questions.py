#!/usr/bin/env python3
"""Checks that core/README.md answers where things are: each row of its table of questions names a file of the repository
that defines the function beside it.

Usage: questions.py ROOT. Prints one line for each fault; exits 1 if there is one."""
import pathlib
import re
import sys

LEAST_ROWS = 10
ROW = re.compile(r"^\| [^|]+\? \| `([^`]+)` \| `([^`]+)` \|$", re.M)


def defines(text, function):
    """Whether a line that is not indented declares or defines the function, of a class or of none."""
    return re.search(r"^[^\s/#}].*\b" + re.escape(function) + r"\(", text, re.M)


def faults(root):
    rows = ROW.findall((root / "core" / "README.md").read_text(encoding="utf-8"))
    if len(rows) < LEAST_ROWS:
        yield f"core/README.md: {len(rows)} questions, fewer than {LEAST_ROWS}"
    for name, function in rows:
        path = root / name
        if not path.is_file():
            yield f"core/README.md: there is no file {name}"
        elif not defines(path.read_text(encoding="utf-8"), function):
            yield f"core/README.md: {name} defines no {function}"


def main():
    found = list(faults(pathlib.Path(sys.argv[1])))
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
