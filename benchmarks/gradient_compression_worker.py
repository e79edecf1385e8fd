"""One process of `gradient_compression.py` with tpack: a trainer of several workers with one choice of what travels.

It is started by `cluster_processes.Row` with the row, the network, how much smaller it is, the steps of a round,
and in how many steps something travels.
"""

from cluster_line import place
from cluster_models import size_of
from cluster_worker import train_with_tpack

from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.codecs.power_sgd import PowerSGD
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated

ARGUMENTS = {
    "plain": {},
    "float16": {"exchange": "float16"},
    "int8": {"exchange": "int8"},
    "one_bit": {"exchange": "one_bit"},
    "top_k:0.01": {"exchange": "top_k:0.01"},
    # As the text "power_sgd:4", but for its ten first steps, in which gradients travel as they are.
    "power_sgd:4": {"exchange": Exchange(codec=PowerSGD(4), start_step=1)},
    "adasum": {"exchange": "adasum"},
    "accumulate=4": {"accumulate": 4},
    "sync_every_steps=8": {"sync_every_steps": 8},
    "shard_optimizer": {"shard_optimizer": True},
    "levels=2": {"exchange": Exchange(levels=2)},
}
"""Of each row, the arguments of the trainer."""


def main():
    _, _, (row, network, shrink, steps, period) = place()
    train_with_tpack(
        lambda task: MultiWorkerTrainerReplicated(1, cluster=task, **ARGUMENTS[row]),
        network,
        size_of(network, int(shrink)),
        int(steps),
        int(period),
    )


if __name__ == "__main__":
    main()
