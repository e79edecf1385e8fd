"""Codecs of the exchange between workers: encodings, what is kept of gradients, and how both travel."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "base": ("Cast", "Codec"),
        "memory": ("ErrorFeedback", "Memory", "MomentumCorrection", "MomentumFeedback"),
        "names": ("make_exchange",),
        "power_sgd": ("PowerSGD",),
        "quantization": ("Int8", "OneBit"),
        "sparsification": ("TopK",),
    },
)
