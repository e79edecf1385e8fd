"""How large the networks of `cluster.py` and their batches are.

They are built in plain TensorFlow calls and as modules of PyTorch's; what is here loads neither.
"""

import math
from dataclasses import dataclass

import numpy as np

CLASSES = 10
RATE = 0.01


@dataclass(frozen=True)
class Size:
    """How large a network and its batches are.

    Attributes:
        batch: examples of each process.
        width: the features of a hidden layer, or of a row.
        rows: of an embedding.
        words: rows of an example.
    """

    batch: int
    width: int
    rows: int = 0
    words: int = 0

    def shrunk(self, factor):
        """Return the same with so many times fewer features, or rows."""
        if self.rows:
            return Size(self.batch, self.width, max(16, self.rows // factor), self.words)
        return Size(self.batch, max(16, self.width // factor))


SIZES = {
    "resnet20": Size(batch=16, width=16),
    "perceptron": Size(batch=16, width=3072),
    "embedding": Size(batch=256, width=16, rows=1_000_000, words=16),
}
LAYERS = 3
"""Hidden layers of the perceptron, which have 25 M weights with the inputs and outputs below."""
INPUTS, OUTPUTS = 1024, 1000


def size_of(network, shrink):
    """Return the size of a network; that of ResNet-20 is always the same."""
    return SIZES[network] if network == "resnet20" or shrink == 1 else SIZES[network].shrunk(shrink)


def batch_of(network, size, rank):
    """Return a process's own batch: inputs and labels, as arrays of numpy."""
    rng = np.random.default_rng(rank + 1)
    if network == "resnet20":
        inputs = rng.normal(size=(size.batch, 32, 32, 3)).astype("float32")
    elif network == "perceptron":
        inputs = rng.normal(size=(size.batch, INPUTS)).astype("float32")
    else:
        inputs = rng.integers(0, size.rows, size=(size.batch, size.words)).astype("int32")
    return inputs, rng.integers(0, CLASSES, size=size.batch).astype("int32")


def perceptron_layers(size):
    """Return the inputs and outputs of each layer."""
    widths = [INPUTS, *[size.width] * LAYERS, OUTPUTS]
    return list(zip(widths[:-1], widths[1:], strict=True))


def spread(inputs):
    """Return the standard deviation of the first weights of a layer."""
    return math.sqrt(2 / inputs)
