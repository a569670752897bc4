#!/usr/bin/env python3
"""faults.py TRIALS [always]: ranks that are killed or frozen at some moment of a long run, of products or, with exchanges that
travel while ranks compute, of stencils. Every other rank must end with an error
that names a silent or failed rank and a statement, within the timeout and five seconds, and nothing may hang.

The launcher is told to let the survivors live. Each rank writes its errors to a file of its own. Two trials run at a time:
most of one is waiting."""
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

# Longer than a busy machine takes to make a rank ready.
TIMEOUT = 4.0
LATEST = TIMEOUT + 5
# Nothing reads U: the warning says that MPI_Init is behind rank 0. Faults before that are the launcher's.
PROGRAM = """function (A[N, N], B[N, N], U) -> (D) {
  C[i, j: N, N] = +(A[i, k] * B[k, j]);
  D[i, j: N, N] = +(C[i, k] * A[k, j]);
}
"""
PRODUCTS = PROGRAM, "A[x, *] B[x, *] C[*, x] D[x, *]", "never"
STENCILS = """function (A[N, N], B[N, N], U) -> (D) {
  C[i, j: N - 2, N] = =(A[i, j] + A[i + 2, j] * B[i + 1, j]);
  D[i, j: N - 4, N] = =(C[i, j] + C[i + 2, j]);
}
""", "A[x, *] B[x, *] C[x, *] D[x, *]", "always"
# Of the draws: the first four have 2, 3 and 4 ranks, and rank 0 and others as victims.
FIRST = 36 if sys.argv[2:] == ["always"] else 8
WHAT = STENCILS if sys.argv[2:] == ["always"] else PRODUCTS
LOCATED = re.compile(r"run error \[rank\]: (rank \d of \d (was silent for 4 s in|failed before) the|the mesh failed)")


def processes(folder, ranks):
    """The process of each rank, once all have begun."""
    found = {}
    warning = pathlib.Path(folder, "err0")
    if not warning.exists() or "unread" not in warning.read_text():
        return None
    for rank in range(ranks):
        text = pathlib.Path(folder, f"pid{rank}")
        if text.exists() and text.read_text().strip():
            found[rank] = int(text.read_text())
    return found if len(found) == ranks else None


def is_there(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def where(pid):
    """What a process that hangs waits for."""
    try:
        return pathlib.Path(f"/proc/{pid}/wchan").read_text() or "its own code"
    except OSError:
        return "?"


def started(folder, ranks):
    program, layouts, overlap = WHAT
    script = ('echo $$ >pid$OMPI_COMM_WORLD_RANK\nexec tile run p.tile --transport mpi --mesh x=$OMPI_COMM_WORLD_SIZE '
              f"--layout '{layouts}' --overlap {overlap} "
              "--in A=random:24x24 --in B=random:24x24 --in U=iota:scalar --out D=d.npy --threads 1 --backend reference "
              f'--repeat 1000000 --rank-timeout {TIMEOUT} 2>err$OMPI_COMM_WORLD_RANK\n')
    pathlib.Path(folder, "p.tile").write_text(program)
    pathlib.Path(folder, "rank.sh").write_text(script)
    return subprocess.Popen(["mpirun", "-n", str(ranks), "--enable-recovery", "sh", "rank.sh"], cwd=folder,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def survivors_end(pids, begin):
    """Seconds until the last of them has ended; None: some have not in time."""
    while time.monotonic() - begin < LATEST:
        if not any(is_there(pid) for pid in pids):
            return time.monotonic() - begin
        time.sleep(0.02)
    return None


def trial(number, generator):
    """What went wrong; empty: nothing. The slowest survivor's seconds."""
    ranks = generator.choice((2, 3, 4))
    victim = generator.randrange(ranks)
    how = (signal.SIGKILL, signal.SIGSTOP)[number % 2]
    with tempfile.TemporaryDirectory() as folder:
        launcher = started(folder, ranks)
        pids = {}
        try:
            deadline = time.monotonic() + 120
            while not pids and time.monotonic() < deadline:
                pids = processes(folder, ranks) or {}
                time.sleep(0.02)
            if not pids:
                return "the ranks did not begin", 0
            time.sleep(3 * generator.random())  # making the mesh, compiling, runs
            others = [pid for rank, pid in pids.items() if rank != victim]
            if not all(is_there(pid) for pid in pids.values()):
                errors = [pathlib.Path(folder, f"err{rank}").read_text() for rank in range(ranks)]
                return f"a rank ended by itself: {errors}", 0
            os.kill(pids[victim], how)
            took = survivors_end(others, time.monotonic())
            errors = {rank: pathlib.Path(folder, f"err{rank}").read_text() for rank in pids if rank != victim}
            what = f"{how.name} of rank {victim} of {ranks}"
            if took is None:
                states = {pid: where(pid) for pid in others if is_there(pid)}
                return f"{what}: survivors hang: {errors}, in {states}", LATEST
            return judged(what, errors, victim), took
        finally:
            for pid in pids.values():
                if is_there(pid):
                    os.kill(pid, signal.SIGKILL)
            launcher.kill()
            launcher.wait()


def judged(what, errors, victim):
    """Rank 0 may have spoken for others; some survivor has to name the victim."""
    silent = [rank for rank, text in errors.items() if not LOCATED.search(text)]
    if 0 in errors and LOCATED.search(errors[0]):
        silent = []
    if silent:
        return f"{what}: no located error of {silent}: {errors}"
    named = any(f"rank {victim} of" in text and "p.tile:" in text for text in errors.values())
    return "" if named else f"{what}: nobody names the rank: {errors}"


def main():
    trials = int(sys.argv[1])
    wrong, slowest = [], 0.0
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda number: trial(number, random.Random(number + FIRST)), range(trials)))
    for number, (fault, took) in enumerate(results):
        slowest = max(slowest, took)
        if fault:
            wrong.append(fault)
            print(f"trial {number}: {fault}", flush=True)
    print(f"{trials} trials, {len(wrong)} wrong, slowest survivor {slowest:.2f} s behind the fault")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
