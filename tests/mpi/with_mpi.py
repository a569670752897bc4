#!/usr/bin/env python3
"""Runs a test with MPI: with_mpi.py BIN ROOT SCRIPT ARGUMENT...

Compiles the plug-in with mpicc into an empty folder, as a user would, and runs the Python script (a path, or a name
beside this file) with TILE_MPI, TILE_BIN and TILE_ROOT in its environment. Exits 77, saying so, where there is no MPI."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


def main():
    programs, root = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    script = pathlib.Path(__file__).parent / sys.argv[3]
    missing = [name for name in ("mpicc", "mpirun") if shutil.which(name) is None]
    if missing:
        print(f"skipped: no {' and no '.join(missing)} here (Debian: sh third_party/install.sh --mpi)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        plugin = os.path.join(folder, "libtile_mpi.so")
        subprocess.run(["mpicc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I", root / "runtime/include",
                        root / "runtime/transport/mpi/tile_mpi.c", "-o", plugin], check=True)
        # Open MPI: more ranks than processors, as root too, without a remote shell, and none of its own advice.
        environment = dict(os.environ, TILE_MPI=plugin, TILE_BIN=programs, TILE_ROOT=str(root),
                           PATH=f"{programs}:{os.environ['PATH']}", OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                           OMPI_MCA_plm_rsh_agent="", OMPI_MCA_hwloc_base_binding_policy="none",
                           OMPI_MCA_orte_base_help_aggregate="0")
        # Open MPI never frees some of its tables, and unloads the libraries that suppressions would name.
        environment["ASAN_OPTIONS"] = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"]))
        return subprocess.run([sys.executable, script, *sys.argv[4:]], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
