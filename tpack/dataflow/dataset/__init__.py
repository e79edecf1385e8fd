"""Data sets, read in the formats that they are published in. Nothing is downloaded: a message says what is missing."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "bsds500": ("BSDS500",),
        "caltech101": ("Caltech101Silhouettes",),
        "cifar": (
            "Cifar10",
            "Cifar100",
            "CifarBase",
        ),
        "digits": ("Digits",),
        "ilsvrc": (
            "ILSVRC12",
            "ILSVRC12Files",
            "ILSVRCMeta",
        ),
        "image_lists": (
            "Places365Standard",
            "TinyImageNet",
            "check_labels",
        ),
        "mnist": (
            "FashionMnist",
            "Mnist",
        ),
        "svhn": ("SVHNDigit",),
    },
)
