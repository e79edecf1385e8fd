"""Data sets, read in the formats that they are published in. Nothing is downloaded: a message says what is missing."""

from tpack.dataflow.dataset.bsds500 import BSDS500
from tpack.dataflow.dataset.caltech101 import Caltech101Silhouettes
from tpack.dataflow.dataset.cifar import Cifar10, Cifar100, CifarBase
from tpack.dataflow.dataset.digits import Digits
from tpack.dataflow.dataset.ilsvrc import ILSVRC12, ILSVRC12Files, ILSVRCMeta
from tpack.dataflow.dataset.image_lists import Places365Standard, TinyImageNet, check_labels
from tpack.dataflow.dataset.mnist import FashionMnist, Mnist
from tpack.dataflow.dataset.svhn import SVHNDigit
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = [
    "BSDS500",
    "Caltech101Silhouettes",
    "Cifar10",
    "Cifar100",
    "CifarBase",
    "Digits",
    "FashionMnist",
    "ILSVRC12",
    "ILSVRC12Files",
    "ILSVRCMeta",
    "Mnist",
    "Places365Standard",
    "SVHNDigit",
    "TinyImageNet",
    "check_labels",
]
