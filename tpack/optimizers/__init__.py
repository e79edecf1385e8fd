"""Optimizers that graph-mode TensorFlow does not have, such as `AdamW`, `Muon` and `Adafactor`.

Each is a ``tf.compat.v1.train.Optimizer``: a trainer, a strategy, an Estimator and what wraps optimizers take it as one
of TensorFlow's.
"""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "guards": ("OptimizerMonitor", "SpikeGuard"),
        "lookahead": ("Lookahead",),
        "rerouting": ("Recompute", "SAM"),
        "matrices": ("Adafactor", "Muon"),
        "unfreezing": ("Unfreeze",),
        "weight_decay": ("AdamW", "LAMB", "LARS", "Lion"),
        "hyper": ("BIASES_AND_NORMS",),
        "one_bit_adam": ("OneBitAdam",),
    },
)
