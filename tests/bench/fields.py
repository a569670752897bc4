#!/usr/bin/env python3
"""Runs tile-bench on a small benchmark and checks the fields of its JSON.

Usage: fields.py TILE-BENCH"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

TIMES = ["real_time", "cpu_time", "min_time"]


def run(program, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "result.json"
        subprocess.run([program, "run", *arguments, "--quick", "--json", str(path)], check=True)
        return json.loads(path.read_text())


def check(condition, what):
    if not condition:
        sys.exit(f"fields: {what}")


def check_entry(entry, rate):
    check(entry["time_unit"] == "ns" and entry["run_type"] == "iteration", "not Google Benchmark's fields")
    check(entry["iterations"] > 0, "nothing was timed")
    for name in TIMES:
        check(entry[name] > 0, f"{name} is not positive")
    check(entry["min_time"] <= entry["real_time"], "the least time is above the median")
    rounds = entry["rounds"]
    check(all(len(times) == entry["repetitions"] for times in rounds.values()), "contenders with other rounds")
    check(statistics.median(rounds["tile"]) == entry["real_time"], "the time is not the rounds' median")
    share = entry[rate] / entry["ceiling"]  # of the medians
    if "ceiling" in rounds:
        share *= entry["real_time"] / statistics.median(rounds["ceiling"]) * in_turns(rounds, "ceiling", "tile")
    check(abs(entry["share_of_ceiling"] - share) < 1e-9 * share, "a wrong share of the ceiling")


def in_turns(rounds, first, second):
    return statistics.median(a / b for a, b in zip(rounds[first], rounds[second]))


def main():
    program = sys.argv[1]
    result = run(program, "--filter", "matmul_64", "--peers")
    context = result["context"]
    check(all(c["fma_gflops"] > 0 and c["copy_gbps"] > 0 and c["read_gbps"] > 0 for c in context["ceilings"]), "no ceilings")
    check([e["name"] for e in result["benchmarks"]] == ["matmul_64"], "not the one benchmark asked for")
    entry = result["benchmarks"][0]
    check_entry(entry, "gflops")
    check(abs(entry["gflops"] * entry["real_time"] - 2 * 64**3) < 1, "not the operations of a 64^3 product")
    check(entry["checked_with"] != "", "the values were not checked")
    check(len(entry["schedules"]) == 1 and "piece" in entry["schedules"][0], "not the schedule of one kernel")
    peers = [entry[key] for key in entry if key.startswith("peer_") and key.endswith("_time") and not key.endswith("_min_time")]
    built_in = [peer for peer in context["peers"] if "not found" not in peer]
    check(len(peers) <= len(built_in), f"{len(built_in)} peers but {len(peers)} peer times")
    for name in ("openblas", "onednn"):  # they have products; other peers may not
        here = any(peer.startswith(name) for peer in built_in)
        check(here == (f"peer_{name}_time" in entry), f"{name} is built in but not timed, or the other way round")
    if peers:
        ratios = [in_turns(entry["rounds"], name, "tile") for name in entry["rounds"] if name not in ("tile", "ceiling")]
        check(abs(entry["ratio_best_peer"] - min(ratios)) < 1e-9, "a wrong ratio")
    plain = run(program, "sum_axis1_2048")["benchmarks"][0]
    check_entry(plain, "gbps")
    check("ratio_best_peer" not in plain, "a ratio without peers")


if __name__ == "__main__":
    main()
