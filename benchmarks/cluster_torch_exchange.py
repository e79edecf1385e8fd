"""One process of `cluster_exchange.py`: PyTorch's gloo takes the mean of arrays over processes.

It is spoken to as `cluster_exchange_worker` is, and runs in an interpreter that has PyTorch; the way is left aside.
"""

import time

import torch
from cluster_line import place, requests, say
from cluster_torch import join, share_cores
from torch import distributed


def main():
    rank, addresses, (elements, num_arrays) = place()
    share_cores(len(addresses))
    join(rank, addresses)
    values = [torch.full([int(elements) // int(num_arrays)], float(rank + 1)) for _ in range(int(num_arrays))]
    say("ready")
    for _, steps in requests():
        if not steps:
            say(float(values[-1][0]))
            continue
        start = time.perf_counter()
        for _ in range(steps):
            copies = [value * 1.0 for value in values]
            for work in [distributed.all_reduce(copy, async_op=True) for copy in copies]:
                work.wait()
            for value, copy in zip(values, copies, strict=True):
                value.copy_(copy.div_(len(addresses)))
        say((time.perf_counter() - start) / steps)


if __name__ == "__main__":
    main()
