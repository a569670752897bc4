"""Which peers there are, asked of one small network: those of all networks take half a minute even where there are none."""
import json
import pathlib
import subprocess
import tempfile


def has_torch(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "accuracy.json"
        subprocess.run([program, "accuracy", "unet_stage_1x64", "--small", "--peer", "torch", "--json", str(path)],
                       capture_output=True)
        peers = json.loads(path.read_text())["peers"]
    return any(peer.startswith("torch") and "not found" not in peer for peer in peers)
