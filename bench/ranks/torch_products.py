"""Products divided between two GPUs by PyTorch, in bf16: gathered factors and scattered sums, with cuBLAS and NCCL one after
the other, by DTensor, and by its asynchronous tensor parallelism. As peers of `tile-gpu-check rank-times`.

    torchrun --nproc-per-node 2 torch_products.py [ROWS ...]

Rank 0 prints a line of JSON for each way: milliseconds, the median of 30 runs of the slowest rank's time."""
import json
import os
import statistics
import sys
import warnings

import torch
import torch.distributed as dist

SIZE = 8192
WARM, RUNS = 5, 30


def timed(run):
    """The median of what the slowest rank took."""
    taken = []
    for i in range(WARM + RUNS):
        dist.barrier()
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        ms = torch.tensor(begin.elapsed_time(end), device="cuda")
        dist.all_reduce(ms, dist.ReduceOp.MAX)
        if i >= WARM:
            taken.append(ms.item())
    return statistics.median(taken)


def plain(rows, rank, ranks):
    """NCCL's collective and cuBLAS's product, one after the other, into memory that is there."""
    part = rows // ranks
    x = torch.randn(part, SIZE, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(SIZE, SIZE // ranks, device="cuda", dtype=torch.bfloat16)
    gathered = torch.empty(rows, SIZE, device="cuda", dtype=torch.bfloat16)
    product = torch.empty(rows, SIZE // ranks, device="cuda", dtype=torch.bfloat16)

    def gather():
        dist.all_gather_into_tensor(gathered, x)
        torch.mm(gathered, w, out=product)
    y = torch.randn(rows, SIZE // ranks, device="cuda", dtype=torch.bfloat16)
    v = torch.randn(SIZE // ranks, SIZE, device="cuda", dtype=torch.bfloat16)
    sums = torch.empty(rows, SIZE, device="cuda", dtype=torch.bfloat16)
    scattered = torch.empty(part, SIZE, device="cuda", dtype=torch.bfloat16)

    def scatter():
        torch.mm(y, v, out=sums)
        dist.reduce_scatter_tensor(scattered, sums)
    return {"gather": gather, "scatter": scatter}


def by_dtensor(rows, rank, ranks):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
    mesh = init_device_mesh("cuda", (ranks,))
    own = plain_tensors(rows, ranks)
    x, w, y, v = (DTensor.from_local(t, mesh, [Shard(d)]) for t, d in zip(own, (0, 1, 1, 0)))
    return {"gather": lambda: x.redistribute(mesh, [Replicate()]) @ w,
            "scatter": lambda: (y @ v).redistribute(mesh, [Shard(0)])}


def plain_tensors(rows, ranks):
    shapes = ((rows // ranks, SIZE), (SIZE, SIZE // ranks), (rows, SIZE // ranks), (SIZE // ranks, SIZE))
    return [torch.randn(*s, device="cuda", dtype=torch.bfloat16) for s in shapes]


def asynchronous(rows, rank, ranks):
    import torch.distributed._symmetric_memory as symmetric
    name = dist.group.WORLD.group_name
    symmetric.enable_symm_mem_for_group(name)
    x, w, y, v = plain_tensors(rows, ranks)
    mine = symmetric.empty(x.shape, device="cuda", dtype=torch.bfloat16)
    symmetric.rendezvous(mine, dist.group.WORLD)
    mine.copy_(x)
    ops = torch.ops.symm_mem
    return {"gather": lambda: ops.fused_all_gather_matmul(mine, [w], 0, name),
            "scatter": lambda: ops.fused_matmul_reduce_scatter(y, v, "sum", 0, name)}


WAYS = {"cublas_nccl": plain, "dtensor": by_dtensor, "async_tp": asynchronous}


def main():
    warnings.simplefilter("ignore")
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    for rows in map(int, sys.argv[1:] or ["16384", "4096", "512"]):
        for way, make in WAYS.items():
            try:
                ms = {what: round(timed(run), 4) for what, run in make(rows, rank, ranks).items()}
            except (RuntimeError, AttributeError, ImportError, TypeError) as error:
                ms = {"error": str(error)[:200]}
            if rank == 0:
                print(json.dumps({"way": way, "rows": rows, "size": SIZE, "torch": torch.__version__, **ms}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
