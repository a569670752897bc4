"""A trace of a GPU's run has its kernels on their stream: trace.py PATH_OF_TILE, with the fake driver in the environment."""
import json
import os
import subprocess
import sys
import tempfile

PROGRAM = "function (A[M, N]) -> (P) {\n  S[i: M] = +(A[i, j]);\n  P = sort(S, 0);\n}\n"


def main():
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "p.tile"), "w") as file:
            file.write(PROGRAM)
        subprocess.run([os.path.abspath(sys.argv[1]), "run", "p.tile", "--in", "A=iota:40x50", "--backend", "cuda", "--repeat", "3",
                        "--trace", "trace.json"], cwd=folder, check=True, timeout=120)
        with open(os.path.join(folder, "trace.json")) as file:
            events = json.load(file)["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "gpu"]
    names = [event["name"] for event in kernels]
    assert names.count("p.tile:2 S") == 3 and names.count("p.tile:3 sort") == 3, names
    named = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert all(named[event["pid"], event["tid"]] == "stream 0" for event in kernels), named
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert all(processes[event["pid"]] == "GPU 0" for event in kernels), processes
    print(len(kernels), "kernels in the trace")


if __name__ == "__main__":
    main()
