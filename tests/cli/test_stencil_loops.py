#!/usr/bin/env python3
"""The loops of the Lift stencils: in the interior no index has a clamp, a choice, a division or a remainder, and the emitted
code divides no integers (issue text: "generated inner loops carry no avoidable division, remainder or clamp").

Usage: test_stencil_loops.py TILE WORKLOADS"""
import pathlib
import re
import subprocess
import sys

GUARDED = re.compile(r"max\(|min\(|mod\(|floordiv\(|[?/%]")
DIVISION = re.compile(r"\b[su](?:div|rem) ")


def emitted(tile, file, shapes, stage):
    arguments = [tile, "emit", str(file), "--stage", stage, "--threads", "2"]  # tasks of many threads begin anywhere
    for shape in shapes:
        arguments += ["--shape", shape]
    return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout


def arms(nest):
    """Accesses of each assignment, with whether it stands under an else."""
    stack = []
    for line in nest.splitlines():
        text = line.strip()
        if text.startswith("assign") or " assign " in text:
            yield text.split(") {")[0], any(stack)
            continue
        if text.startswith("}"):
            stack.pop()
        if text.endswith("{"):
            stack.append("else" in text)


def problems(tile, file):
    case = next(line for line in file.read_text().splitlines() if line.startswith("//: case"))
    shapes = case.split()[3:]
    found = list(arms(emitted(tile, file, shapes, "nest")))
    if not any(not under_else for _, under_else in found):
        yield "has no interior"
    for accesses, under_else in found:
        if not under_else and GUARDED.search(accesses):
            yield "computes an index in its interior: " + accesses
    divisions = DIVISION.findall(emitted(tile, file, shapes, "llvm"))
    if divisions:
        yield f"divides integers {len(divisions)} times"


def main():
    tile, workloads = sys.argv[1], pathlib.Path(sys.argv[2])
    # Products are no stencils: where the last rows of a thread's part begin is worked out once for each part.
    files = [f for f in sorted(workloads.glob("*.lift")) if "Slide" in f.read_text()]
    wrong = [f"{file.name} {problem}" for file in files for problem in problems(tile, file)]
    print("\n".join(wrong + [f"{len(files)} programs, {len(wrong)} problems"]))
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main())
