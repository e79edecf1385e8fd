"""The package of augmentors as a whole."""

import subprocess
import sys

from tpack.dataflow import imgaug


def test_augmentor_is_the_other_name():
    assert imgaug.Augmentor is imgaug.ImageAugmentor


def test_importing_does_not_load_opencv():
    program = "import sys; from tpack.dataflow.imgaug import *; sys.exit('cv2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
