#!/usr/bin/env python3
"""Checks that two builds make the same code: loop nests for CPUs and CUDA text, byte for byte.

Usage: same_code.py OLD_TILE NEW_TILE [--programs CHECK] [--random N] [--cases N] [--jobs N] [--only SUBSTRING]

For changes that move or rename code and must not change what it does. The programs are the workloads of
bench/workloads (the first --cases shapes of each), the gradients of those that have one, and with --programs, a
tile-program-check, N random programs and their gradients. Prints a line for each text that differs, with its first
differing line, and a count; exits 1 if there is a difference or nothing was compared."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = [("cpu", "avx512", "nest"), ("cpu", "avx2", "nest"), ("cpu", "sse", "nest"), ("cuda", "sm_80", "cuda"),
           ("cuda", "sm_90a", "cuda")]
HEADER = re.compile(r"^(?://|#): (.*)")
INPUTS = re.compile(r"function\s*\(([^)]*)\)\s*->")
# Machine rates that were measured once would change schedules between two runs.
ENVIRONMENT = {**os.environ, "TILE_CACHE": "off"}


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=ENVIRONMENT)
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr


def workloads(cases):
    """(name, file, options) of each measured shape."""
    for path in sorted((ROOT / "bench" / "workloads").rglob("*")):
        if path.suffix not in (".tile", ".mfg", ".lift"):
            continue
        lines = [found[1] for found in map(HEADER.match, path.read_text(encoding="utf-8").splitlines()) if found]
        if any(line.startswith("data ") for line in lines):
            continue  # networks, whose cases name sizes and not shapes
        program = next((path.parent / line.split()[1] for line in lines if line.startswith("program ")), path)
        precision = next((["--precision", line.split()[1]] for line in lines if line.startswith("precision ")), [])
        for line in [line for line in lines if line.startswith("case ")][:cases]:
            name, *shapes = line.split()[1:]
            shapes = [s for s in shapes if not s.startswith("seed=")]
            yield name, program.resolve(), precision + [o for s in shapes for o in ("--shape", s)]


def random_programs(check, count, folder):
    """The same of random programs, written into the folder."""
    for seed in range(count):
        status, text = run(check, "show", seed)
        end = text.find("\n}\n")
        if status or end < 0:
            continue
        sizes = dict(re.findall(r"^(\w+) = (\d+)$", text, re.M))
        types = dict(re.findall(r"^(\w+) (\w+)$", text[end:], re.M))
        path = folder / f"random_{seed}.tile"
        path.write_text(text[:end + 3], encoding="utf-8")
        options = []
        for name, dims in re.findall(r"(\w+)\[([^\]]*)\]", INPUTS.search(text)[1]):
            shape = "x".join(sizes.get(d.strip(), d.strip()) for d in dims.split(",")) if dims.strip() else "scalar"
            options += ["--shape", f"{name}={shape}:{types.get(name, 'f32')}"]
        yield path.stem, path, options


def gradient(tile, name, path, options, folder):
    """The gradient of the program's first output of floats, as another program; None where there is none."""
    status, bound = run(tile, "emit", path, "--backend", "cpu", "--stage", "bound", *options)
    tensors = re.findall(r"^tensor (\w+): (f\w+) \[([^\]]*)\].*\b(input|output)", bound, re.M) if status == 0 else []
    inputs = [t[0] for t in tensors if t[3] == "input"]
    output = next((t for t in tensors if t[3] == "output"), None)
    if not inputs or not output:
        return None
    status, text = run(tile, "grad", path, "--of", output[0], "--wrt", ",".join(inputs))
    header = INPUTS.search(text) if status == 0 else None
    if not header:
        return None
    seeds = [n for n in re.findall(r"(\w+)\s*\[", header[1]) if n not in inputs]
    to = folder / f"gradient_{name}.tile"
    to.write_text(text, encoding="utf-8")
    shape = "x".join(output[2].replace(" ", "").split(",")) or "scalar"
    return f"gradient of {name}", to, options + [o for s in seeds for o in ("--shape", f"{s}={shape}:{output[1]}")]


def first_difference(old, new):
    for number, (a, b) in enumerate(zip(old.splitlines(), new.splitlines()), 1):
        if a != b:
            return f"line {number}: {a.strip()[:100]} | {b.strip()[:100]}"
    return f"{len(old.splitlines())} | {len(new.splitlines())} lines"


def compare(arguments, program):
    """Texts compared, texts that both builds made, and lines for those that differ."""
    name, path, options = program
    made, faults = 0, []
    for backend, features, stage in TARGETS:
        command = ["emit", path, "--backend", backend, "--features", features, "--stage", stage, *options]
        command += ["--threads", "8"] if backend == "cpu" else []
        (status, old), (other, new) = run(arguments.old, *command), run(arguments.new, *command)
        made += status == 0 and other == 0
        if (status, old) != (other, new):
            faults.append(f"{name} {features}: {first_difference(old, new)}")
    return len(TARGETS), made, faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--programs", type=pathlib.Path)
    parser.add_argument("--random", type=int, default=100)
    parser.add_argument("--cases", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        folder = pathlib.Path(name)
        programs = [w for w in workloads(arguments.cases) if arguments.only in w[0]]
        if arguments.programs:
            programs += list(random_programs(arguments.programs, arguments.random, folder))
        gradients = pool.map(lambda p: gradient(arguments.old, *p, folder), programs)
        programs += [g for g in gradients if g]
        compared = made = differ = 0
        for texts, both, faults in pool.map(lambda p: compare(arguments, p), programs):
            compared, made, differ = compared + texts, made + both, differ + len(faults)
            for fault in faults:
                print(fault, flush=True)
    print(f"{len(programs)} programs, {compared} texts compared, {made} made by both, {differ} differ")
    return 1 if differ or not made else 0


if __name__ == "__main__":
    sys.exit(main())
