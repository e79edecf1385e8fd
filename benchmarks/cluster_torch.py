"""One process of `cluster.py` with PyTorch: `DistributedDataParallel` over gloo, or alone.

It runs in an interpreter that has PyTorch, and needs neither TensorFlow nor tpack. Where there are several processes,
each computes with its share of the cores, as ``torchrun`` would have it.
"""

import os

import torch
from cluster_line import interface, place, say, serve_rounds
from cluster_models import CLASSES, RATE, batch_of, perceptron_layers, size_of
from torch import distributed, nn
from torch.nn import functional

WIDTHS = (16, 32, 64)
BLOCKS = 3


def share_cores(num_processes):
    """Compute with a share of the cores."""
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // num_processes))


def join(rank, addresses):
    """Become one of a group of processes that talk by gloo on the loopback interface, or on their wires."""
    os.environ["GLOO_SOCKET_IFNAME"] = interface()
    distributed.init_process_group("gloo", init_method=f"tcp://{addresses[0]}", rank=rank, world_size=len(addresses))


class Block(nn.Module):
    """Two convolutions and what goes around them."""

    def __init__(self, inputs, channels):
        super().__init__()
        stride = 2 if channels != inputs else 1
        self.first = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels, track_running_stats=False) for _ in range(2)])
        self.extra = channels - inputs

    def forward(self, features):
        inner = functional.relu(self.norms[0](self.first(features)))
        inner = self.norms[1](self.second(inner))
        if self.extra:
            features = functional.avg_pool2d(features, 2)
            features = functional.pad(features, (0, 0, 0, 0, self.extra // 2, self.extra // 2))
        return functional.relu(features + inner)


def resnet20():
    """Return a ResNet-20 for 32 x 32 images."""
    layers = [nn.Conv2d(3, WIDTHS[0], 3, 1, 1, bias=False)]
    layers += [nn.BatchNorm2d(WIDTHS[0], track_running_stats=False), nn.ReLU()]
    inputs = WIDTHS[0]
    for width in WIDTHS:
        for _ in range(BLOCKS):
            layers.append(Block(inputs, width))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTHS[-1], CLASSES))


def perceptron(size):
    """Return a perceptron."""
    layers = []
    for inputs, outputs in perceptron_layers(size):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Embedding(nn.Module):
    """The mean of the rows of an example, and a linear layer."""

    def __init__(self, size):
        super().__init__()
        self.table = nn.Embedding(size.rows, size.width, sparse=True)
        self.linear = nn.Linear(size.width, CLASSES)

    def forward(self, words):
        return self.linear(self.table(words).mean(1))


def make_network(network, size):
    """Return the module of a network and one batch."""

    def batch(rank):
        inputs, labels = map(torch.from_numpy, batch_of(network, size, rank))
        inputs = inputs.permute(0, 3, 1, 2).contiguous() if network == "resnet20" else inputs
        return inputs.long() if network == "embedding" else inputs, labels.long()

    torch.manual_seed(0)
    made = {"resnet20": resnet20, "perceptron": lambda: perceptron(size), "embedding": lambda: Embedding(size)}
    return made[network](), batch


def main():
    rank, addresses, (network, shrink, steps) = place()
    share_cores(max(2, len(addresses)))
    module, batch = make_network(network, size_of(network, int(shrink)))
    inputs, labels = batch(rank)
    if len(addresses) > 1:
        join(rank, addresses)
        module = nn.parallel.DistributedDataParallel(module)
    optimizer = torch.optim.SGD(module.parameters(), RATE)

    def step():
        optimizer.zero_grad()
        functional.cross_entropy(module(inputs), labels).backward()
        optimizer.step()

    step()
    say("ready")
    serve_rounds(step, int(steps))


if __name__ == "__main__":
    main()
