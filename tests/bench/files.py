#!/usr/bin/env python3
"""What tile-bench does with files of results: go on with a run, compare two, draw one; and a peer in
Python, where NumPy is there.

Usage: files.py TILE-BENCH"""
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

PEER = """//: suite tests 1.5 0.5
//: kind test
//: measure gflops
//: peer numpy numpy.matmul(A, B)
//: case product_20 A=20x30 B=30x10
//: case product_21 A=21x30 B=30x11
function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }
"""


def check(condition, what):
    if not condition:
        sys.exit(f"files: {what}")


def bench(program, *arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True,
                          env={"TILE_BENCH_PYTHON": sys.executable, "PATH": "/usr/bin:/bin"})


def changed(path, to, factor):
    """The run as it would be on a machine that takes `factor` times as long: its spread is of the same
    part of the time, since a busy machine's spread in a hundredth of its time would drown any change."""
    results = json.loads(path.read_text())
    for time in ("real_time", "quartile_low", "quartile_high"):
        results["benchmarks"][0][time] *= factor
    to.write_text(json.dumps(results))
    return to


def check_resumed(program, folder, options):
    path = folder / "results.json"
    first = bench(program, "run", "product_20", *options, "--json", path)
    check(first.returncode == 0, f"the first run failed: {first.stderr}")
    before = json.loads(path.read_text())["benchmarks"]
    check([b["name"] for b in before] == ["product_20"], "not the one benchmark asked for")
    second = bench(program, "run", *options, "--json", path, "--resume", "--html", folder / "page.html")
    check(second.returncode == 0, f"the second run failed: {second.stderr}")
    after = json.loads(path.read_text())["benchmarks"]
    check([b["name"] for b in after] == ["product_20", "product_21"], "the rest was not measured")
    check(after[0] == before[0], "what was there was measured again")
    return path


def check_studied_again(program, folder):
    """A study of a CPU, priced again; files that are none are refused."""
    path = folder / "study.json"
    first = bench(program, "study", "--backend", "cpu", "--shapes", 1, "--scale", 0.1, "--seconds", 0.1, "--race-ms", 10,
                  "--trace", "--json", path)
    check(first.returncode == 0, f"the study failed: {first.stderr}")
    again = bench(program, "study", "--again", path, "--backend", "cpu")
    check(again.returncode == 0 and again.stdout.splitlines()[-1].startswith("1 shapes: "), f"not priced: {again.stdout}")
    study = json.loads(path.read_text())
    for name, value in (("multiple", 0), ("scale", -1), ("type", "f3"), ("seed", "one")):
        other = folder / "other.json"
        other.write_text(json.dumps(dict(study, context=dict(study["context"], **{name: value}))))
        refused = bench(program, "study", "--again", other, "--backend", "cpu")
        check(refused.returncode == 1 and "not a study" in refused.stderr, f"{name}: {refused.returncode} {refused.stderr}")


def check_compared(program, path, folder):
    same = bench(program, "compare", path, path)
    check(same.returncode == 0 and "0 slower" in same.stdout, f"a run differs from itself: {same.stdout}")
    slow = bench(program, "compare", path, changed(path, folder / "slow.json", 100))
    check(slow.returncode == 1 and "1 slower" in slow.stdout, "a hundredfold time is no change")
    fast = bench(program, "compare", path, changed(path, folder / "fast.json", 0.01))
    check(fast.returncode == 0 and "faster" in fast.stdout, "a hundredth of the time is no change")
    wrong = bench(program, "compare", path, __file__)
    check(wrong.returncode == 1 and "not a file of tile-bench results" in wrong.stderr, "a script was taken for results")


def check_page(page):
    text = page.read_text()
    drawings = text.count("<svg")
    check(drawings >= 2 and text.count("</svg>") == drawings, "not every drawing is whole")
    for piece in text.split("<svg")[1:]:
        xml.fromstring("<svg" + piece.split("</svg>")[0] + "</svg>")
    check("†" not in text.split("untrusted †")[-1], "a row without known peers is not trusted")
    check("product_21" in text and "http" not in text, "the page lacks a case or is not self-contained")


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "product.tile").write_text(PEER)
        options = ["--quick", "--workloads", folder, "--peers"]
        path = check_resumed(program, folder, options)
        check_compared(program, path, folder)
        check_studied_again(program, folder)
        check_page(folder / "page.html")
        entry = json.loads(path.read_text())["benchmarks"][1]
        if importlib.util.find_spec("numpy"):
            check(entry["peer_numpy_time"] > 0 and "numpy" in entry["checked_with"], "NumPy was not timed")
        else:
            check("peer_numpy_time" not in entry, "a time of a module that is not there")


if __name__ == "__main__":
    main()
