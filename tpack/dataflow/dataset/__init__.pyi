"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.dataflow.dataset.bsds500 import BSDS500 as BSDS500
from tpack.dataflow.dataset.caltech101 import Caltech101Silhouettes as Caltech101Silhouettes
from tpack.dataflow.dataset.cifar import Cifar10 as Cifar10
from tpack.dataflow.dataset.cifar import Cifar100 as Cifar100
from tpack.dataflow.dataset.cifar import CifarBase as CifarBase
from tpack.dataflow.dataset.ilsvrc import ILSVRC12 as ILSVRC12
from tpack.dataflow.dataset.ilsvrc import ILSVRC12Files as ILSVRC12Files
from tpack.dataflow.dataset.ilsvrc import ILSVRCMeta as ILSVRCMeta
from tpack.dataflow.dataset.image_lists import Places365Standard as Places365Standard
from tpack.dataflow.dataset.image_lists import TinyImageNet as TinyImageNet
from tpack.dataflow.dataset.image_lists import check_labels as check_labels
from tpack.dataflow.dataset.mnist import Digits as Digits
from tpack.dataflow.dataset.mnist import FashionMnist as FashionMnist
from tpack.dataflow.dataset.mnist import Mnist as Mnist
from tpack.dataflow.dataset.svhn import SVHNDigit as SVHNDigit
