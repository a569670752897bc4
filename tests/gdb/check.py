#!/usr/bin/env python3
"""Runs gdb on the subject and compares what the printers say. Skipped (77) where there is no gdb, or it may not trace."""
import shutil
import subprocess
import sys

EXPECTED = """(M * 8) + min(i, 3)
%0:f32 = load 0
%1:f32 = add %0 %0
yield %1
nest double_it {
  argument A[8]:f32
  argument B[8]:f32
  parallel i in [0, +8) {
    B[i] assign from (A[i]) {
      %0:f32 = load 0
      %1:f32 = add %0 %0
      yield %1
    }
  }
}"""


def main(subject, printers):
    gdb = shutil.which("gdb")
    if gdb is None:
        print("no gdb on this machine")
        return 77
    commands = ["set debuginfod enabled off", "set style enabled off", f"source {printers}", "break stop_here", "run"]
    commands += [f"output {name}" for name in ("expression", "body", "nest")]
    arguments = [gdb, "-q", "-batch", "-nx"]
    for command in commands:
        arguments += ["-ex", command]
        if command.startswith("output"):
            arguments += ["-ex", "echo \\n"]
    done = subprocess.run(arguments + [subject], capture_output=True, text=True, timeout=120)
    if "ptrace" in done.stderr:
        print("gdb may not trace here: " + done.stderr.strip())
        return 77
    if EXPECTED in done.stdout:
        return 0
    print(f"expected:\n{EXPECTED}\n\ngdb said:\n{done.stdout}\n{done.stderr}")
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
