"""The public names of tpack.dataflow.dataset."""

import subprocess
import sys

from tpack.dataflow import dataset

NAMES = [
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
]


def test_all_is_the_list_of_data_sets():
    assert dataset.__all__ == NAMES


def test_every_name_is_there():
    assert [name for name in NAMES if not hasattr(dataset, name)] == []


def test_importing_loads_no_optional_package():
    program = "import sys, tpack.dataflow.dataset; sys.exit(bool({'cv2', 'scipy', 'sklearn'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
