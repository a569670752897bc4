#!/usr/bin/env python3
"""Times of programs divided among ranks that are processes, beside ScaLAPACK, PETSc and PyTorch, in turns.

    ranks.py --tile BIN/tile [--ranks 2] [--rounds 5] [--runs 20] [--filter TEXT] [--scale 1] [--json FILE]

Each rank has one thread. Cases: products divided by rows, by columns and by both factors' shared dimension (beside
ScaLAPACK's psgemm), steps of stencils of five and seven points in f64 (beside PETSc's distributed arrays), a convolution
with halos, and an MLP and an attention block with tensor and with data parallelism (beside PyTorch's collectives over gloo,
where `--python` names a Python that has it). The values of all contenders are compared first. A round starts every
contender once, in turn forwards and backwards, and takes the least of its runs; a run's time is that of its slowest rank.
Ratios are medians over the rounds of the peer's time over ours of the same round.

The peers of C are compiled here by mpicc (libscalapack-openmpi-dev, libpetsc-real-dev); one that cannot be is named and
left out. --scale divides the cells of every case by a power of two: for a test. Prints a table, and writes JSON as Google
Benchmark does."""
import argparse
import array
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {"f32": ("f", "<f4"), "f64": ("d", "<f8")}
HEADER_BYTES = 128  # of .npy; the peers of C skip as many
MOST_APART = {"f32": 2e-4, "f64": 1e-12}  # of the largest value


def write_npy(path, shape, dtype, seed):
    """Values between -1/2 and 1/2."""
    numbers = random.Random(seed)
    code, descr = TYPES[dtype]
    block = array.array(code, (numbers.random() - 0.5 for _ in range(min(math.prod(shape), 1 << 16))))
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    with open(path, "wb") as file:
        text = header.ljust(HEADER_BYTES - 11) + "\n"
        file.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode())
        left = math.prod(shape)
        while left > 0:  # repeated, shifted by a number that no extent divides
            some = min(left, len(block))
            file.write(block[:some].tobytes())
            block = block[65521 % len(block):] + block[:65521 % len(block)]
            left -= some


def read_npy(path, dtype):
    with open(path, "rb") as file:
        start = file.read(10)
        file.seek(10 + int.from_bytes(start[8:10], "little"))
        values = array.array(TYPES[dtype][0])
        values.frombytes(file.read())
    return values


class Case:
    """A program, its layouts on `axes` (names of the mesh's axes), and the sizes of its inputs."""

    def __init__(self, name, text, axes, layouts, inputs, output, dtype="f32", peers=()):
        self.name, self.text, self.axes, self.layouts, self.inputs = name, text, axes, layouts, inputs
        self.output, self.dtype, self.peers = output, dtype, list(peers)

    def prepare(self, folder):
        self.folder = folder
        self.file = os.path.join(folder, self.name + ".tile")
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(self.text)
        for seed, (name, shape) in enumerate(self.inputs.items()):
            write_npy(self.path(name), shape, self.dtype, seed)

    def path(self, name):
        return os.path.join(self.folder, f"{self.name}_{name}.npy")

    def output_shape(self):
        return self.output[1]


def stencil_text(rank, steps):
    """Cells at the faces become zero, since a sum leaves out points whose elements do not exist."""
    dims, index = ["Z", "Y", "X"][-rank:], ["k", "j", "i"][-rank:]
    moved = [", ".join(name + sign if d == e else name for e, name in enumerate(index))
             for d in range(rank) for sign in (" - 1", " + 1")]
    centre, side = ("0.4", "0.1") if rank == 3 else ("0.5", "0.125")
    lines = []
    for s in range(steps):
        sides = " + ".join(f"U{s}[{m}]" for m in moved)
        lines.append(f"  U{s + 1}[{', '.join(index)}: {', '.join(dims)}] = "
                     f"+({centre} * U{s}[{', '.join(index)}] + {side} * ({sides}));")
    return f"function (U0[{', '.join(dims)}]) -> (U{steps}) {{\n" + "\n".join(lines) + "\n}\n"


def cases(ranks, scale):
    def cut(extent):
        return max(ranks * 8, extent // scale)

    product = "function (A[M, L], B[L, N]) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}\n"
    listed = []
    for size in (512, 1024, 2048):
        n = cut(size)
        shapes = {"A": (n, n), "B": (n, n)}
        for way, layouts, grid in (("rows", "A[x, *] B[x, *] C[x, *]", (ranks, 1)),
                                   ("columns", "A[*, x] B[*, x] C[*, x]", (1, ranks))):
            listed.append(Case(f"product_{way}_{n}", product, "x", layouts, shapes, ("C", (n, n)), "f32",
                               [Scalapack(grid, (n, n, n))]))
    for n in (cut(1024), cut(2048)):
        for way, grid in (("rows", (1, ranks, 1)), ("columns", (1, 1, ranks))):
            layout = "[x, *]" if way == "rows" else "[*, x]"
            listed.append(Case(f"stencil_2d_{way}_{n}", stencil_text(2, 8), "x", f"U0{layout} U8{layout}",
                               {"U0": (n, n)}, ("U8", (n, n)), "f64", [Petsc((1, n, n), grid, 8)]))
    for n in (cut(96), cut(160)):
        for way, grid in (("planes", (ranks, 1, 1)), ("rows", (1, ranks, 1))):
            layout = "[x, *, *]" if way == "planes" else "[*, x, *]"
            listed.append(Case(f"stencil_3d_{way}_{n}", stencil_text(3, 8), "x", f"U0{layout} U8{layout}",
                               {"U0": (n, n, n)}, ("U8", (n, n, n)), "f64", [Petsc((n, n, n), grid, 8)]))
    h = cut(112)
    listed.append(Case(
        f"convolution_halo_{h}",
        "function (I[N, H, W, C], K[A, B, C, D]) -> (O) {\n  O[n, y, x, d: N, H, W, D] = "
        "+(I[n, y + a - 1, x + b - 1, c] * K[a, b, c, d]);\n}\n", "x", "I[*, x, *, *] K[*, *, *, *] O[*, x, *, *]",
        {"I": (2, h, h, 32), "K": (3, 3, 32, 32)}, ("O", (2, h, h, 32)), "f32"))
    t, d = cut(512), cut(512)
    mlp = ("function (X[T, D], W[D, H], V[H, D]) -> (Y) {\n  A[t, h: T, H] = +(X[t, d] * W[d, h]);\n  R = relu(A);\n"
           "  Y[t, d: T, D] = +(R[t, h] * V[h, d]);\n}\n")
    shapes = {"X": (t, d), "W": (d, 4 * d), "V": (4 * d, d)}
    for way, layouts in (("tensor", "X[*, *] W[*, x] V[x, *] Y[*, *]"), ("data", "X[x, *] W[*, *] V[*, *] Y[x, *]")):
        listed.append(Case(f"mlp_{way}_{t}", mlp, "x", layouts, shapes, ("Y", (t, d)), "f32", [Torch("mlp", way)]))
    heads, s = 2 * ranks, cut(512)
    attention = (
        "function (Q[H, S, D], K[H, S, D], V[H, S, D]) -> (O) {\n  L[h, s, t: H, S, S] = +(Q[h, s, d] * K[h, t, d]);\n"
        "  Z = L * 0.125;\n  Top[h, s, 0: H, S, 1] = >(Z[h, s, t]);\n  E = exp(Z - Top);\n"
        "  Sum[h, s, 0: H, S, 1] = +(E[h, s, t]);\n  P = E / Sum;\n  O[h, s, d: H, S, D] = +(P[h, s, t] * V[h, t, d]);\n}\n")
    shapes = {name: (heads, s, 64) for name in "QKV"}
    for way, layouts in (("heads", "Q[x, *, *] K[x, *, *] V[x, *, *] O[x, *, *]"),
                         ("queries", "Q[*, x, *] K[*, x, *] V[*, x, *] O[*, x, *]")):
        listed.append(Case(f"attention_{way}_{s}", attention, "x", layouts, shapes, ("O", (heads, s, 64)), "f32",
                           [Torch("attention", way)]))
    return listed


class Missing(Exception):
    """Why a peer is not there."""


class Runner:
    """Starts contenders: as many processes as ranks, each with one thread."""

    def __init__(self, options, folder):
        self.options, self.folder, self.built = options, folder, {}
        self.environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1",
                                TILE_CACHE_DIR=os.path.join(folder, "cache"))
        os.mkdir(os.path.join(folder, "cache"), 0o700)

    def start(self, command):
        """Root may start processes only where it says so, and ranks beyond the processors too."""
        launcher = ["mpirun", "-n", str(self.options.ranks), "--oversubscribe", "--bind-to", "none"]
        if os.geteuid() == 0:
            launcher.append("--allow-run-as-root")
        done = subprocess.run(launcher + command, capture_output=True, text=True, env=self.environment,
                              timeout=self.options.seconds)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command[:4])}: status {done.returncode}: {done.stderr.strip()[-600:]}")
        return done.stdout + done.stderr

    def compiled(self, name, flags):
        """A peer of C; the second call knows what became of the first."""
        if name not in self.built:
            target = os.path.join(self.folder, name)
            command = ["mpicc", "-O3", "-march=native", os.path.join(HERE, name + ".c"), "-o", target, *flags()]
            done = subprocess.run(command, capture_output=True, text=True)
            lines = done.stderr.strip().splitlines() or [""]
            self.built[name] = target if done.returncode == 0 else Missing(f"{name}: {lines[0]}")
        if isinstance(self.built[name], Missing):
            raise self.built[name]
        return self.built[name]


def package_flags(*names):
    for name in names:
        done = subprocess.run(["pkg-config", "--cflags", "--libs", name], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.split()
    raise Missing(f"no package {names[0]}")


def times_of(output):
    return [float(line.split()[1]) for line in output.splitlines() if line.startswith("run ")]


class Ours:
    name = "tile"

    def run(self, runner, case, runs):
        command = [runner.options.tile, "run", case.file, "--transport", "mpi", "--threads", "1", "--mesh",
                   f"{case.axes}={runner.options.ranks}", "--layout", case.layouts, "--repeat", str(max(2, runs))]
        for name in case.inputs:
            command += ["--in", f"{name}={case.path(name)}"]
        told = runner.start(command + ["--out", f"{case.output[0]}={case.path('ours')}"])
        return [float(re.search(r"least ([0-9.e+-]+) ms", told)[1]) * 1e6]

    def values(self, case):
        return read_npy(case.path("ours"), case.dtype)


class Peer:
    def values(self, case):
        """The tensor that the ranks' boxes make up."""
        shape = case.output_shape()
        whole = array.array(TYPES[case.dtype][0], bytes(math.prod(shape) * array.array(TYPES[case.dtype][0]).itemsize))
        for line in self.boxes:
            numbers = [int(n) for n in line.split()[1:]]
            begin, extent = numbers[1:][:len(numbers) // 2], numbers[1:][len(numbers) // 2:]
            part = array.array(TYPES[case.dtype][0])
            with open(f"{case.path(self.name)}.{numbers[0]}", "rb") as file:
                part.frombytes(file.read())
            place(whole, shape, part, begin[-len(shape):], extent[-len(shape):])
        return whole

    def told(self, output):
        self.boxes = [line for line in output.splitlines() if line.startswith("box ")]
        return times_of(output)


def place(whole, shape, part, begin, extent):
    width, rows = extent[-1], math.prod(extent[:-1])
    for row in range(rows):
        at, left = 0, row
        places = []
        for n in reversed(extent[:-1]):
            places.insert(0, left % n)
            left //= n
        for d, n in enumerate(shape):
            at = at * n + begin[d] + (places[d] if d < len(places) else 0)
        whole[at:at + width] = part[row * width:(row + 1) * width]


class Scalapack(Peer):
    name = "scalapack"

    def __init__(self, grid, size):
        self.grid, self.size = grid, size

    def run(self, runner, case, runs):
        program = runner.compiled("scalapack", lambda: [*package_flags("scalapack-openmpi", "scalapack"), "-lopenblas"])
        return self.told(runner.start([program, *map(str, self.grid), *map(str, self.size), case.path("A"),
                                       case.path("B"), case.path(self.name), str(runs)]))


class Petsc(Peer):
    name = "petsc"

    def __init__(self, size, grid, steps):
        self.size, self.grid, self.steps = size, grid, steps

    def run(self, runner, case, runs):
        program = runner.compiled("petsc", lambda: package_flags("petsc", "PETSc"))
        return self.told(runner.start([program, *map(str, self.size), *map(str, self.grid), str(self.steps),
                                       case.path("U0"), case.path(self.name), str(runs)]))


class Torch(Peer):
    name = "torch"

    def __init__(self, network, way):
        self.network, self.way = network, way

    def run(self, runner, case, runs):
        if not runner.options.python:
            raise Missing("torch: no --python")
        files = [f"{name}={case.path(name)}" for name in case.inputs]
        return self.told(runner.start([runner.options.python, os.path.join(HERE, "torch_ranks.py"), self.network,
                                       self.way, case.path(self.name), str(runs), *files]))


def apart(ours, theirs):
    largest = max(max(theirs), -min(theirs), 1e-300)
    return max(abs(a - b) for a, b in zip(ours, theirs)) / largest


def contenders(runner, case):
    """Those that run and agree, and what is to be said of the others."""
    ours, there, notes = Ours(), [Ours()], []
    ours.run(runner, case, 1)
    for peer in case.peers:
        try:
            peer.run(runner, case, 1)
        except (Missing, RuntimeError) as why:
            notes.append(str(why).splitlines()[0])
            continue
        difference = apart(ours.values(case), peer.values(case))
        if difference > MOST_APART[case.dtype]:
            raise RuntimeError(f"{case.name}: {peer.name} differs by {difference:.2g} of the largest value")
        there.append(peer)
    return there, notes


def measure(runner, case):
    there, notes = contenders(runner, case)
    least = {contender.name: [] for contender in there}
    for turn in range(runner.options.rounds):
        for contender in there if turn % 2 == 0 else reversed(there):
            least[contender.name].append(min(contender.run(runner, case, runner.options.runs)))
    ratios = {name: statistics.median(theirs / ours for theirs, ours in zip(times, least["tile"]))
              for name, times in least.items() if name != "tile"}
    return {"name": case.name, "run_type": "iteration", "iterations": runner.options.runs,
            "real_time": statistics.median(least["tile"]), "time_unit": "ns", "layouts": case.layouts,
            **{f"{name}_time": statistics.median(times) for name, times in least.items() if name != "tile"},
            **{f"{name}_ratio": ratio for name, ratio in ratios.items()}, "rounds": least, "notes": notes}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tile", required=True, help="the program `tile`; TILE_MPI names its plug-in")
    parser.add_argument("--python", help="a Python with PyTorch")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--filter", default="")
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=300, help="that one start of a contender may take")
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(options, folder)
        for case in cases(options.ranks, options.scale):
            if not re.search(options.filter, case.name):
                continue
            case.prepare(folder)
            rows.append(measure(runner, case))
            row = rows[-1]
            peers = "  ".join(f"{peer.name} {row[peer.name + '_ratio']:.2f}" for peer in case.peers
                              if peer.name + "_ratio" in row)
            print(f"{row['name']:28} {row['real_time'] / 1e6:9.3f} ms  {peers}{'; '.join(row['notes'])}", flush=True)
    ratios = [row[key] for row in rows for key in row if key.endswith("_ratio")]
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"peers' times over ours: geometric mean {mean:.2f}, least {min(ratios):.2f}, of {len(ratios)}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"context": {"ranks": options.ranks, "threads_per_rank": 1, "executable": options.tile},
                       "benchmarks": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
