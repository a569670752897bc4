"""A network divided among ranks by PyTorch's DTensor over gloo, as peer of ranks.py, which starts it by mpirun.

    torch_ranks.py NETWORK WAY OUT RUNS NAME=FILE.npy ...

Each rank writes its box of the result to OUT.RANK as raw elements; rank 0 prints the time of each run in nanoseconds, of
its slowest rank, and where the boxes are."""
import os
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor


def mlp(way, mesh, t):
    """Column-wise, then row-wise weights with a sum over the ranks; or the rows of X divided."""
    tensor = way == "tensor"
    x = distribute_tensor(t["X"], mesh, [Replicate() if tensor else Shard(0)])
    w = distribute_tensor(t["W"], mesh, [Shard(1) if tensor else Replicate()])
    v = distribute_tensor(t["V"], mesh, [Shard(0) if tensor else Replicate()])
    to = [Replicate() if tensor else Shard(0)]
    return lambda: (torch.relu(x @ w) @ v).redistribute(mesh, to)


def attention(way, mesh, t):
    """Heads are divided; or rows, of which every rank gathers all keys and values."""
    shard = [Shard(0 if way == "heads" else 1)]
    q, k, v = (distribute_tensor(t[name], mesh, shard) for name in "QKV")
    everywhere = shard if way == "heads" else [Replicate()]

    def run():
        keys, values = (x.redistribute(mesh, everywhere).to_local() for x in (k, v))
        return torch.softmax(q.to_local() @ keys.transpose(1, 2) * 0.125, -1) @ values
    return run


NETWORKS = {"mlp": mlp, "attention": attention}


def box_of(network, way, shape, rank, ranks):
    """Of the result, as DTensor divides it."""
    dim = {("mlp", "tensor"): None, ("mlp", "data"): 0, ("attention", "heads"): 0, ("attention", "queries"): 1}[network, way]
    begin, extent = [0] * len(shape), list(shape)
    if dim is not None:
        each = -(-shape[dim] // ranks)
        begin[dim] = min(shape[dim], rank * each)
        extent[dim] = min(each, shape[dim] - begin[dim])
    return begin, extent


def main():
    network, way, out, runs, *files = sys.argv[1:]
    rank, ranks = (int(os.environ["OMPI_COMM_WORLD_" + name]) for name in ("RANK", "SIZE"))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + out + ".store", rank=rank, world_size=ranks)
    mesh = init_device_mesh("cpu", (ranks,))
    tensors = {name: torch.from_numpy(np.load(path)) for name, path in (f.split("=", 1) for f in files)}
    run = NETWORKS[network](way, mesh, tensors)
    with torch.no_grad():
        for _ in range(int(runs)):
            dist.barrier()
            begin = time.perf_counter()
            result = run()
            taken = torch.tensor(time.perf_counter() - begin, dtype=torch.float64)
            dist.all_reduce(taken, dist.ReduceOp.MAX)
            if rank == 0:
                print(f"run {taken.item() * 1e9:.0f}")
    local = result.to_local() if hasattr(result, "to_local") else result
    whole = list(tensors["X" if network == "mlp" else "Q"].shape)
    local.contiguous().numpy().tofile(f"{out}.{rank}")
    if rank == 0:
        for r in range(ranks):
            begin, extent = box_of(network, way, whole, r, ranks)
            print("box", r, *begin, *extent)
    dist.barrier()
    if rank == 0:
        os.remove(out + ".store")
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # threads of gloo may end the process as the interpreter is taken down


if __name__ == "__main__":
    main()
