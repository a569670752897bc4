#!/usr/bin/env python3
"""Measures every class on a GPU beside cuBLAS, cuDNN and PyTorch, from an unpacked portable tarball or a build tree.

    gpu_bench.py BIN JSON [--budget SECONDS] [tile-bench options]

Results are kept in JSON after each benchmark; a second call goes on where the first one ended. As soon as a class is
done its figures are printed as one JSON line: how often the best peer's time is ours (geometric mean and worst case)
and the share of the ceiling; at the end a table of each class and one of all of them, with what each aims at. After
the budget (500 s) what is left is left for the next call.
Exit status: 0 all measured, 1 a benchmark failed, 2 some are left, 77 no GPU."""
import argparse
import json
import math
import os
import subprocess
import sys
import time

NO_GPU = 77
PEER, TIME, LEAST = "peer_", "_time", "_min_time"


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def rounded(value):
    return None if value is None else round(value, 3)


def ratio(entry):
    """The best peer's time over ours; None without peers."""
    times = [value for key, value in entry.items()
             if key.startswith(PEER) and key.endswith(TIME) and not key.endswith(LEAST)]
    return min(times) / entry["real_time"] if times else None


def rate(entry):
    name = "gbps" if "gbps" in entry else "gflops"
    return f"{entry.get(name, 0):.0f} {'GB/s' if name == 'gbps' else 'GFLOP/s'}"


class Class:
    """The benchmarks of one suite, as measured. Of a target one of two things is wanted: the ratio, or 95 % of the
    ceiling."""

    def __init__(self, entries):
        self.entries = [e for e in entries if "error_message" not in e]
        self.failed = [e["name"] for e in entries if "error_message" in e]
        self.ratios = {e["name"]: ratio(e) for e in self.entries if ratio(e)}

    def summary(self):
        worst = min(self.ratios, key=self.ratios.get, default=None)
        shares = [e["share_of_ceiling"] for e in self.entries if e.get("share_of_ceiling", 0) > 0]
        return {"cases": len(self.entries), "failed": self.failed, "geomean": rounded(geomean(self.ratios.values())),
                "worst": rounded(self.ratios.get(worst)), "worst_case": worst,
                "share_of_ceiling": rounded(geomean(shares))}

    def aims(self):
        """Geometric mean and worst case; None: nothing is aimed at."""
        first = self.entries[0] if self.entries else {}
        return (first["target_geomean"], first["target_worst"]) if first.get("target_geomean") else None

    def rows(self):
        """One line for each benchmark, the ones below the worst case that is aimed at marked."""
        worst = self.aims()[1] if self.aims() else 0
        for e in self.entries:
            times = self.ratios.get(e["name"])
            share = e.get("share_of_ceiling", 0)
            low = times is not None and times < worst and share < 0.95
            beside = f"{times:6.2f}" if times else "     -"
            yield (f"  {e['name']:44} {e['real_time'] / 1000:10.1f} us {rate(e):>16} {100 * share:6.1f} % "
                   f"{beside}{'  below' if low else ''}")
        for name in self.failed:
            yield f"  {name:44} failed"


def tables(found):
    for name, entries in found.items():
        aims = Class(entries).aims()
        print(f"{name}: time, rate, share of the ceiling, best peer / ours"
              + (f" (aims at {aims[0]}, at worst {aims[1]})" if aims else ""))
        for row in Class(entries).rows():
            print(row)
    for name, entries in found.items():
        s, aims = Class(entries).summary(), Class(entries).aims()
        print(f"{name:28} {s['cases']:3} cases  geomean {s['geomean']}  worst {s['worst']} ({s['worst_case']})  "
              f"share {s['share_of_ceiling']}" + (f"  aims {aims[0]} ({aims[1]})" if aims else ""))


def classes_of(path):
    """Entries by suite, of a file that may not be there yet."""
    try:
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)["benchmarks"]
    except (OSError, ValueError):
        return {}
    found = {}
    for entry in entries:
        found.setdefault(entry.get("suite", "of errors"), []).append(entry)
    return found


def measure(options, more):
    """Runs tile-bench until it ends or the budget does; None: it was stopped."""
    command = [os.path.join(options.bin, "tile-bench"), "run", "--backend", "cuda", "--peers", "--json", options.json,
               "--resume"] + more
    end, told = time.monotonic() + options.budget, 0
    with subprocess.Popen(command, stdout=sys.stderr) as running:
        while running.poll() is None and time.monotonic() < end:
            time.sleep(1)
            # Suites stand together: all but the latest are done.
            found = list(classes_of(options.json).items())
            for name, entries in found[told:-1]:
                print(json.dumps({name: Class(entries).summary()}), flush=True)
            told = max(told, len(found) - 1)
        stopped = running.poll() is None
        if stopped:
            running.terminate()
        status = running.wait()
    return None if stopped else status


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("json")
    parser.add_argument("--budget", type=float, default=500, help="seconds after which measuring ends")
    options, more = parser.parse_known_args()
    devices = subprocess.run([os.path.join(options.bin, "tile"), "devices"], capture_output=True, text=True)
    device = next((line for line in devices.stdout.splitlines() if line.startswith("cuda:")), "cuda: not available")
    print(f"gpu_bench: {device}", flush=True)
    if "not available" in device:
        return NO_GPU
    status = measure(options, more)
    found = classes_of(options.json)
    if found:
        name, entries = list(found.items())[-1]
        print(json.dumps({name: Class(entries).summary()}), flush=True)
    tables(found)
    if status is None:
        print("gpu_bench: the budget has ended; call again to go on")
        return 2
    return 1 if status != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
