"""What a host's process does around calls: threads, Ctrl-C, fork, the end of the interpreter, the import."""
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tilejit as tile

MATMUL = "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }"
# An ordered reduction: some hundred million steps one after the other on one thread.
LONG = "function (X[N], Y[N]) -> (O) { O[] = +(exp(sin(X[i] * Y[j])) * cos(X[i] + Y[j])); }"


def python(code, **environment):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})


def test_threads_share_a_program():
    mm, failures = tile.program(MATMUL), []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(50):
            m, k, n = rng.integers(1, 20, 3)
            a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
            if not np.allclose(mm(a, b), a @ b):
                failures.append((m, k, n))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def long_run():
    """A call of several seconds on the slow engine, and how long it takes here is measured by nobody."""
    program = tile.program(LONG, engine=tile.Engine("reference"))
    return lambda: program(np.ones(20000), np.ones(20000))


def test_other_threads_go_on_during_a_run():
    steps, done = [], threading.Event()

    def count():
        while not done.is_set():
            steps.append(time.monotonic())
            time.sleep(0.005)

    counter = threading.Thread(target=count)
    program = tile.program(LONG, engine=tile.Engine("reference"))
    data = np.ones(300)
    counter.start()
    begin = time.monotonic()
    try:
        program(data, data)
    finally:
        end = time.monotonic()
        done.set()
        counter.join()
    inside = sum(begin < s < end for s in steps)
    assert inside >= min(3, int((end - begin) / 0.1)), f"{inside} steps in {end - begin} s"


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_interrupt_ends_a_run(backend):
    engine = tile.Engine(backend, cache_mode="off", threads=1)
    size = 20000 if backend == "reference" else 200000
    program, data = tile.program(LONG, engine=engine), np.ones(size)
    program(data[:3], data[:3])
    if backend == "reference":
        engine = None
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        program(data, data)
    assert time.monotonic() - begin < 60
    timer.join()
    # What was interrupted can be called again.
    np.testing.assert_allclose(program(data[:2], data[:2]), 4 * np.exp(np.sin(1.0)) * np.cos(2.0))


def test_handlers_that_do_not_raise_let_it_go_on():
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    program, data = tile.program(LONG, engine=tile.Engine("reference")), np.ones(2000)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.005)
        assert program(data, data).shape == ()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen


def in_child(queue, program):
    queue.put(float(program(np.ones((300, 300)), np.ones((300, 300))).sum()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_other_processes(method):
    mm = tile.program(MATMUL)
    mm(np.ones((300, 300)), np.ones((300, 300)))  # with all threads
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue, mm))
    child.start()
    assert queue.get(timeout=100) == 300.0**3
    child.join(60)
    assert child.exitcode == 0


def test_clean_end():
    code = """
import threading, numpy as np, tilejit as tile
mm = tile.program("function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }")
a = np.ones((400, 400), np.float32)
held = mm.bind(B=a)
def work(size):
    while True:
        mm(a, a)
        held(a[:size])  # compiles, again and again
        size = size % 300 + 1
for t in range(3): threading.Thread(target=work, args=(50 * t + 1,), daemon=True).start()
for _ in range(20): mm(a, a)
print("end")
"""
    for _ in range(5):
        result = python(code)
        assert (result.returncode, result.stdout, result.stderr) == (0, "end\n", "")


def test_import_takes_nothing_that_it_does_not_need():
    result = python("import sys, tilejit; print(*(m for m in ('numpy', 'torch', 'jax', 'json') if m in sys.modules))")
    assert (result.returncode, result.stderr) == (0, "") and "numpy" not in result.stdout and "torch" not in result.stdout


@pytest.mark.parametrize("order", [("tilejit", "torch"), ("torch", "tilejit"), ("tilejit", "jax"), ("jax", "tilejit"),
                                   ("torch", "jax", "tilejit"), ("tilejit", "jax", "torch"),
                                   ("numba", "tilejit", "torch"), ("tilejit", "numba"), ("triton", "tilejit"),
                                   ("tilejit", "triton", "numba", "jax")])  # each of which has an LLVM of its own
def test_import_orders(order):
    for name in order:
        pytest.importorskip(name)
    result = python("\n".join(f"import {name}" for name in order) + f"""
import tilejit, numpy
program = tilejit.program({MATMUL!r})
assert program(numpy.ones((3, 3)), numpy.ones((3, 3)))[0, 0] == 3
if "jax" in {order}: assert jax.jit(lambda x: x + 1)(1) == 2
if "torch" in {order}: assert torch.ones(2).sum() == 2
if "numba" in {order}: assert numba.njit(lambda x: x + 1)(1) == 2
print("good")
""")
    assert (result.returncode, result.stdout) == (0, "good\n"), result.stderr


def test_nvrtc_of_a_wheel_beside_is_loaded(tmp_path):
    """Where PyTorch's wheels have brought it, in no place of the system's; a file that is no library is passed over."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        library = next(line.split()[-1] for line in maps if "libm.so" in line or "libc.so" in line)
    for folder, bytes_of in (("first", b"of another system"), ("second", pathlib.Path(library).read_bytes())):
        place = tmp_path / folder / "nvidia" / "cu13" / "lib"
        place.mkdir(parents=True)
        (place / "libnvrtc.so.13").write_bytes(bytes_of)
    code = f"""
import ctypes, glob, sys, tilejit._support as support
sys.path[:] = [{str(tmp_path / 'first')!r}, {str(tmp_path / 'second')!r}]
support.load_nvrtc()
print(sum({str(tmp_path)!r} in line for line in open("/proc/self/maps")) > 0)
"""
    without = {k: v for k, v in os.environ.items() if k != "TILE_NVRTC"}
    for named, expected in (("", "True\n"), ("/elsewhere/libnvrtc.so", "False\n")):
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                                env={**without, **({"TILE_NVRTC": named} if named else {})})
        assert (result.returncode, result.stdout) == (0, expected), result.stderr
