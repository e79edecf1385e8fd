"""Small data for tensorpack's own programs, in the formats that they read. See `tests.trials.outside_data`."""

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import lmdb
import msgpack
import numpy as np
import scipy.io
from PIL import Image

from tests.helpers.dataset_files import mean_blob
from tests.trials.outside_data import Maker, images, sentence_lines, text, tones, values

NUM_CLASSES = 1000

GYM = '''
"""A stand-in for the games: pictures of noise, 20 steps to an episode."""
import numpy as np
__version__ = "0.26.0"
class Discrete:
    def __init__(self, n):
        self.n = n
    def sample(self):
        return np.random.randint(self.n)
class Env:
    action_space = Discrete(4)
    @property
    def unwrapped(self):
        return self
    def get_action_meanings(self):
        return ["NOOP", "FIRE", "RIGHT", "LEFT"]
    def reset(self):
        self.left = 20
        return np.random.randint(0, 256, (210, 160, 3)).astype("uint8")
    def step(self, action):
        self.left -= 1
        return np.random.randint(0, 256, (210, 160, 3)).astype("uint8"), 1.0, self.left <= 0, {}
class Wrapper(Env):
    def __init__(self, env):
        self.env, self.action_space = env, env.action_space
    @property
    def unwrapped(self):
        return self.env.unwrapped
    def reset(self):
        return self.env.reset()
    def step(self, action):
        return self.env.step(action)
class ObservationWrapper(Wrapper):
    def reset(self):
        return self.observation(self.env.reset())
    def step(self, action):
        seen, *rest = self.env.step(action)
        return (self.observation(seen), *rest)
def make(name, render_mode=None):
    return Env()
'''
BOB = '''
"""A stand-in for the features of sounds."""
import numpy as np
class Ceps:
    def __init__(self, *args):
        pass
    def __call__(self, signal):
        return np.resize(signal, (len(signal) // 400, 13)).astype("float64")
'''
COCO_MASKS = '''
"""A stand-in for masks of polygons, as arrays."""
import numpy as np
from PIL import Image, ImageDraw
def frPyObjects(polygons, height, width):
    found = []
    for polygon in polygons:
        image = Image.new("L", (width, height))
        ImageDraw.Draw(image).polygon(list(polygon), fill=1)
        found.append(np.array(image))
    return found
def merge(masks):
    return np.maximum.reduce(masks)
def decode(mask):
    return mask
def encode(mask):
    return {"counts": b"", "size": mask.shape}
def iou(left, right, is_crowd):
    ends = [np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], 1) for box in (left, right)]
    low = np.maximum(ends[0][:, None, :2], ends[1][None, :, :2])
    high = np.minimum(ends[0][:, None, 2:], ends[1][None, :, 2:])
    both = np.prod(np.maximum(high - low, 0), 2)
    areas = [np.prod(box[:, 2:], 1) for box in (left, right)]
    return both / (areas[0][:, None] + areas[1][None] - both)
'''

STAND_INS = {
    "gym/__init__.py": GYM,
    "gym/spaces.py": "from gym import Discrete\n",
    "bob/__init__.py": "",
    "bob/ap.py": BOB,
    "pycocotools/__init__.py": "",
    "pycocotools/mask.py": COCO_MASKS,
}
"""Packages that the programs import, and that are not here: what the programs use of them, written for the trial."""


def _at(folder: Path, path: str) -> Path:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def cifar100() -> Maker:
    """Write the files of CIFAR-100 in their format for Python and number."""

    def make(folder: Path) -> None:
        rng = np.random.default_rng(0)
        for name, num in (("train", 50000), ("test", 10000)):
            pictures = np.resize(rng.integers(0, 256, (10, 3072)).astype(np.uint8), (num, 3072))
            batch = {b"data": pictures, b"fine_labels": [index % 100 for index in range(num)]}
            _at(folder, f"datasets/cifar100_data/cifar-100-python/{name}").write_bytes(pickle.dumps(batch))

    return make


def house_numbers() -> Maker:
    """Write the three files of SVHN, with few pictures."""

    def make(folder: Path) -> None:
        rng = np.random.default_rng(0)
        for name in ("train", "test", "extra"):
            content = {
                "X": rng.integers(0, 256, (32, 32, 3, 300)).astype(np.uint8),
                "y": rng.integers(1, 11, (300, 1)).astype(np.uint8),
            }
            scipy.io.savemat(_at(folder, f"datasets/svhn_data/{name}_32x32.mat"), content)

    return make


def edges(num: int) -> Maker:
    """Write photographs and drawn edges in the format of BSDS500."""

    def make(folder: Path) -> None:
        root = "datasets/bsds500_data/BSR/BSDS500/data"
        rng = np.random.default_rng(0)
        for part in ("train", "val"):
            images(f"{root}/images/{part}/{{}}.jpg", num, (481, 321))(folder)
            for index in range(num):
                cell = np.empty((1, 1), object)
                cell[0, 0] = {"Boundaries": (rng.random((321, 481)) > 0.9).astype(np.uint8)}
                scipy.io.savemat(_at(folder, f"{root}/groundTruth/{part}/{index}.mat"), {"groundTruth": cell})

    return make


def photographs(num: int) -> Maker:
    """Write photographs, lists, words and the mean picture in the format of ILSVRC 2012; ``imagenet`` has the first."""

    def make(folder: Path) -> None:
        lists = "datasets/ilsvrc_metadata"
        synsets = [f"n{index:08d}" for index in range(NUM_CLASSES)]
        text(f"{lists}/synsets.txt", synsets)(folder)
        text(f"{lists}/synset_words.txt", [f"{synset} thing {index}" for index, synset in enumerate(synsets)])(folder)
        text(f"{lists}/train.txt", [f"{synsets[index]}/{index}.JPEG {index}" for index in range(num)])(folder)
        text(f"{lists}/val.txt", [f"{index}.JPEG {index}" for index in range(num)])(folder)
        blob = mean_blob(np.full((3, 256, 256), 120, np.float32))
        _at(folder, f"{lists}/imagenet_mean.binaryproto").write_bytes(blob)
        images("datasets/imagenet/val/{}.JPEG", num, (300, 260))(folder)
        for index in range(num):
            one = folder / f"datasets/imagenet/val/{index}.JPEG"
            _at(folder, f"datasets/imagenet/train/{synsets[index]}/{index}.JPEG").write_bytes(one.read_bytes())

    return make


def tree_bank() -> Maker:
    """Write the three texts of the Penn Treebank."""

    def make(folder: Path) -> None:
        for part, num in (("train", 800), ("valid", 400), ("test", 400)):
            text(f"datasets/ptb_data/ptb.{part}.txt", sentence_lines(num))(folder)

    return make


def celebrities(num: int) -> Maker:
    """Write faces and the table of their attributes, in the format of CelebA."""

    def make(folder: Path) -> None:
        images("faces/{:06d}.jpg", num + 1, (178, 218))(folder)
        marks = [f"{index + 1:06d}.jpg {1 if index % 2 else -1}" for index in range(num)]
        text("faces/list_attr_celeba.txt", [str(num), "Male", *marks])(folder)

    return make


def balloons(num: int) -> Maker:
    """Write pictures with polygons, in the format of the balloons."""

    def make(folder: Path) -> None:
        shape = {"all_points_x": [20, 80, 80, 20], "all_points_y": [20, 20, 70, 70]}
        regions = {"0": {"region_attributes": {}, "shape_attributes": shape}}
        for part in ("train", "val"):
            images(f"balloon/{part}/{{}}.jpg", num, (128, 96))(folder)
            listed = {str(index): {"filename": f"{index}.jpg", "regions": regions} for index in range(num)}
            _at(folder, f"balloon/{part}/via_region_data.json").write_text(json.dumps(listed))

    return make


def zipped(path: str, num: int, size: tuple[int, int]) -> Maker:
    """Write pictures into a zip file."""

    def make(folder: Path) -> None:
        images("zipped/{}.jpg", num, size)(folder)
        with zipfile.ZipFile(_at(folder, path), "w") as archive:
            for index in range(num):
                archive.write(folder / f"zipped/{index}.jpg", f"{index}.jpg")

    return make


def sounds(num: int) -> tuple[Maker, ...]:
    """Write sounds and their phonemes, in the format of TIMIT."""
    phonemes = ["0 4000 h#", "4000 9000 aa", "9000 16000 s"]
    return (tones("timit/{}.wav", num), *(text(f"timit/{index}.PHN", phonemes) for index in range(num)))


def older_points(path: str, num: int) -> Maker:
    """Write an LMDB of sounds as tensorpack wrote it with msgpack and msgpack_numpy, and its statistics."""

    def make(folder: Path) -> None:
        rng = np.random.default_rng(0)
        points = [[rng.normal(size=(30, 39)), rng.integers(0, 61, 5)] for _ in range(num)]
        environment = lmdb.open(str(_at(folder, path)), subdir=False, map_size=1 << 26)
        keys = [f"{index:08}".encode("ascii") for index in range(num)]
        with environment.begin(write=True) as transaction:
            for key, point in zip(keys, points, strict=True):
                transaction.put(key, _packed(point))
            transaction.put(b"__keys__", _packed(keys))
        environment.close()
        _at(folder, "stats.data").write_bytes(_packed([np.zeros(39), np.ones(39)]))

    return make


def _packed(value: Any) -> bytes:
    def as_dict(array: Any) -> Any:
        # The format of msgpack_numpy, with the keys as bytes.
        return {b"nd": True, b"type": array.dtype.str, b"kind": b"", b"shape": array.shape, b"data": array.tobytes()}

    return bytes(msgpack.packb(value, default=as_dict, use_bin_type=True))


def flow_file(path: str, size: tuple[int, int]) -> Maker:
    """Write frames of a film and the flow between two of them, in the format of Sintel."""

    def make(folder: Path) -> None:
        images(f"{path}/clean/scene/frame_{{:04d}}.png", 3, size)(folder)
        target = _at(folder, f"{path}/flow/scene/frame_0001.flo")
        flow = np.zeros((size[1], size[0], 2), np.float32)
        target.write_bytes(np.float32(202021.25).tobytes() + np.int32(size).tobytes() + flow.tobytes())

    return make


def picture(path: str, size: tuple[int, int]) -> Maker:
    """Write one picture."""

    def make(folder: Path) -> None:
        array = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3)).astype(np.uint8)
        Image.fromarray(array).save(_at(folder, path))

    return make


def weights(path: str = "weights.npz", **arrays: Any) -> Maker:
    """Write a file of weights; without arrays, of one whose name no graph has."""
    return values(path, arrays or {"a_name_that_no_graph_has/W": np.zeros(1, np.float32)})


def older_checkpoint(path: str) -> Maker:
    """Write a checkpoint with a name that no graph has."""

    def make(folder: Path) -> None:
        import tensorflow.compat.v1 as tf  # noqa: PLC0415 (loaded by the one case that needs it)

        with tf.Graph().as_default(), tf.Session() as session:
            tf.get_variable("a_name_that_no_graph_has", [1])
            session.run(tf.global_variables_initializer())
            tf.train.Saver().save(session, str(_at(folder, path)), write_meta_graph=False)

    return make
