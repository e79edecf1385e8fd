"""Data sets in the formats of their publication. Nothing is downloaded: a message names missing files."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "bsds500": ("BSDS500",),
        "caltech101": ("Caltech101Silhouettes",),
        "cifar": ("Cifar10", "Cifar100", "CifarBase"),
        "ilsvrc": ("ILSVRC12", "ILSVRC12Files", "ILSVRCMeta"),
        "image_lists": ("Places365Standard", "TinyImageNet", "check_labels"),
        "mnist": ("Digits", "FashionMnist", "Mnist"),
        "svhn": ("SVHNDigit",),
    },
)
