"""One process of `gradient_compression.py` with PyTorch: `DistributedDataParallel` over gloo, with one of its hooks.

It runs in an interpreter that has PyTorch, and needs neither TensorFlow nor tpack. It is started by
`cluster_processes.Row` with the row, the network, how much smaller it is, the steps of a round, and in how many steps
something travels.
"""

import torch
from cluster_line import place, say, serve_rounds
from cluster_models import RATE, size_of
from cluster_torch import join, make_network, share_cores
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn import functional

FIRST_STEPS = 2
"""Before them nothing is encoded or left out; they are not measured."""


def hook(row, period):
    """Return the state and the function of the hook of a row, or None for plain gradients."""
    if row.endswith("fp16"):
        return None, default_hooks.fp16_compress_hook
    if period > 1:
        alone, _ = distributed.new_subgroups(group_size=1)
        state = post_localSGD_hook.PostLocalSGDState(None, alone, start_localSGD_iter=FIRST_STEPS)
        return state, post_localSGD_hook.post_localSGD_hook
    return None


def main():
    rank, addresses, (row, network, shrink, steps, period) = place()
    period = int(period)
    share_cores(max(2, len(addresses)))
    module, batch = make_network(network, size_of(network, int(shrink)))
    inputs, labels = batch(rank)
    join(rank, addresses)
    module = nn.parallel.DistributedDataParallel(module)
    registered = hook(row, period)
    if registered is not None:
        module.register_comm_hook(*registered)
    optimizer = torch.optim.SGD(module.parameters(), RATE)
    if period > 1:
        optimizer = PostLocalSGDOptimizer(optimizer, PeriodicModelAverager(period, warmup_steps=FIRST_STEPS))

    def step():
        optimizer.zero_grad()
        functional.cross_entropy(module(inputs), labels).backward()
        optimizer.step()

    for _ in range(FIRST_STEPS + 1):
        step()
    say("ready")
    serve_rounds(step, int(steps))


if __name__ == "__main__":
    main()
