"""Small trees of files in the layouts that data sets are published in, of images that a tiny network can learn."""

import gzip
from dataclasses import replace

import cv2
import numpy as np
import scipy.io
from sklearn.datasets import load_digits

from tests.helpers.dataset_files import idx_bytes, mean_blob, write_jpeg
from tpack.dataflow.dataset import cifar

_IDX_PREFIXES = {"train": "train", "test": "t10k"}
_BSDS_SHAPE = 321, 481


def write_cifar(folder, monkeypatch, rng, *, num_classes=10, per_file=60):
    """Write the binary version with fewer images, and let the flows expect so many."""
    form = {10: cifar.CIFAR10, 100: cifar.CIFAR100}[num_classes]
    form = replace(form, files={part: (*names, per_file) for part, (*names, _) in form.files.items()})
    monkeypatch.setitem(cifar._FORMATS, num_classes, form)
    (folder / form.binary_dir).mkdir(parents=True)
    for names, _, _ in form.files.values():
        for name in names:
            labels = np.arange(per_file) % num_classes
            content = [bytes(form.label_bytes - 1) + bytes([k]) + stripes(rng, int(k)).tobytes() for k in labels]
            (folder / form.binary_dir / name).write_bytes(b"".join(content))
    names = "\n".join(f"stripes {k}" for k in range(num_classes))
    (folder / form.binary_dir / form.names_files[0]).write_text(names)


def stripes(rng, label):
    """Return an image (3, 32, 32): colour and direction tell the last digit of the label, the width the rest."""
    color, is_flat = np.array([label % 5 & 1, label % 5 >> 1 & 1, label % 5 >> 2]), label % 10 >= 5
    wave = np.sign(np.sin((np.arange(32) + rng.integers(32)) * np.pi / (2 + label // 10)))
    wave = wave[:, np.newaxis] if is_flat else wave[np.newaxis]
    image = 90 + 80 * color[:, np.newaxis, np.newaxis] + 50 * wave + rng.normal(0, 10, (3, 32, 32))
    return image.clip(0, 255).astype(np.uint8)


def digits_of_size(side, start, stop):
    """Return the handwritten digits of scikit-learn as uint8 images of another size, and what they show."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))[start:stop]
    small = (images[order].reshape(-1, 8, 8) * 255 / 16).astype(np.uint8)
    return np.stack([cv2.resize(image, (side, side)) for image in small]), labels[order]


def write_mnist(folder, part, start, stop):
    """Write the compressed files of a part."""
    folder.mkdir(exist_ok=True)
    for kind, array in zip(("images-idx3", "labels-idx1"), digits_of_size(28, start, stop), strict=True):
        (folder / f"{_IDX_PREFIXES[part]}-{kind}-ubyte.gz").write_bytes(gzip.compress(idx_bytes(array)))


def write_svhn(folder, part, start, stop, rng):
    """Write the file of a part: digits of one colour on another."""
    folder.mkdir(exist_ok=True)
    shapes, labels = digits_of_size(32, start, stop)
    weight = shapes[..., np.newaxis] / 255
    dark, bright = (rng.integers(low, low + 80, (len(shapes), 1, 1, 3)) for low in (0, 160))
    images = (dark + (bright - dark) * weight).astype(np.uint8)
    content = {"X": images.transpose(1, 2, 3, 0), "y": np.where(labels == 0, 10, labels)[:, np.newaxis].astype("uint8")}
    scipy.io.savemat(folder / f"{part}_32x32.mat", content)


def write_bsds500(folder, part, count, rng, *, people=3):
    """Write images of rectangles, upright and not, and the edges that people drew around them."""
    for number in range(count):
        shape = _BSDS_SHAPE if number % 2 else _BSDS_SHAPE[::-1]
        image, edges = np.full((*shape, 3), 30, np.uint8), np.zeros(shape, np.uint8)
        for _ in range(4):
            (y, x), (height, width) = rng.integers(10, np.array(shape) // 2), rng.integers(60, 150, 2)
            corners = (int(x), int(y)), (int(x + width), int(y + height))
            cv2.rectangle(image, *corners, rng.integers(100, 255, 3).tolist(), cv2.FILLED)
            cv2.rectangle(edges, *corners, 0, cv2.FILLED)
            cv2.rectangle(edges, *corners, 1, 3)
        write_jpeg(folder / "BSR/BSDS500/data/images" / part / f"{number}.jpg", image)
        cells = np.empty((1, people), dtype=object)
        cells[0, :] = [{"Boundaries": edges} for _ in range(people)]
        path = folder / "BSR/BSDS500/data/groundTruth" / part / f"{number}.mat"
        path.parent.mkdir(parents=True, exist_ok=True)
        scipy.io.savemat(path, {"groundTruth": cells})


def write_ilsvrc(folder, rng, *, num_classes=4, per_class=4):
    """Write photographs, the brighter the greater their class, and their lists and mean in ``meta``."""
    synsets = [f"n{label:08}" for label in range(num_classes)]
    lists = {"train": [], "val": []}
    for label, synset in enumerate(synsets):
        for number in range(per_class):
            image = 40 + 50 * label + rng.integers(0, 20, (60 + 3 * number, 80 - number, 3))
            write_jpeg(folder / "train" / synset / f"{synset}_{number}.JPEG", image.astype(np.uint8))
            lists["train"].append(f"{synset}/{synset}_{number}.JPEG {label}")
            name = f"ILSVRC2012_val_{len(lists['val']) + 1:08}.JPEG"
            write_jpeg(folder / "val" / name, image[::-1].astype(np.uint8))
            lists["val"].append(f"{name} {label}")
    meta = folder / "meta"
    meta.mkdir()
    (meta / "synsets.txt").write_text("\n".join(synsets))
    (meta / "synset_words.txt").write_text("\n".join(f"{name} shade {k}" for k, name in enumerate(synsets)))
    (meta / "imagenet_mean.binaryproto").write_bytes(mean_blob(np.full((3, 256, 256), 100.0)))
    for name, lines in lists.items():
        (meta / f"{name}.txt").write_text("\n".join(lines))
