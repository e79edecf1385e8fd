"""Make small data in the formats that other people's programs read.

Each function returns a maker: called with the folder of the copy, it writes files there. Whatever is random is seeded.
"""

import gzip
import json
import pickle
import shutil
import struct
import wave
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from PIL import Image

Maker = Callable[[Path], None]
WORDS = [first + second + third for first in ("ba", "ko", "li", "mu") for second in "nrst" for third in ("a", "i", "o")]


def text(path: str, content: str | Iterable[str]) -> Maker:
    """Write a text, or lines."""
    return lambda folder: (
        _at(folder, path).write_text(
            content if isinstance(content, str) else "".join(f"{line}\n" for line in content), encoding="utf-8"
        )
        and None
    )


def values(path: str, content: Any) -> Maker:
    """Write what the ending of `path` says: JSON, pickle, or numpy's."""

    def make(folder: Path) -> None:
        target = _at(folder, path)
        if target.suffix == ".json":
            target.write_text(json.dumps(content))
        elif target.suffix == ".npz":
            np.savez(target, **content)
        elif target.suffix == ".npy":
            np.save(target, content)
        else:
            target.write_bytes(pickle.dumps(content, protocol=2))

    return make


def folders(*paths: str) -> Maker:
    """Make empty folders."""
    return lambda folder: [(folder / path).mkdir(parents=True, exist_ok=True) for path in paths] and None


def images(pattern: str, num: int, size: tuple[int, int], *, channels: int = 3) -> Maker:
    """Write images of width and height `size`; `pattern` is their path, with the number in braces."""

    def make(folder: Path) -> None:
        rng = np.random.default_rng(0)
        for index in range(num):
            array = rng.integers(0, 256, (size[1], size[0], channels)).astype(np.uint8)
            Image.fromarray(array if channels > 1 else array[:, :, 0]).save(_at(folder, pattern.format(index)))

    return make


def zipped_images(path: str, num: int, size: tuple[int, int]) -> Maker:
    """Write an archive of images of width and height `size`."""

    def make(folder: Path) -> None:
        images("zipped/{}.png", num, size)(folder)
        shutil.make_archive(str(_at(folder, path).with_suffix("")), "zip", folder / "zipped")

    return make


def sentences(path: str, num: int, *, words: list[str] = WORDS, lengths: tuple[int, int] = (4, 12)) -> Maker:
    """Write lines of words; the same number of lines with the same seed for each path."""
    return text(path, sentence_lines(num, words=words, lengths=lengths))


def sentence_lines(
    num: int, *, words: list[str] = WORDS, lengths: tuple[int, int] = (4, 12), seed: int = 0
) -> list[str]:
    """Return lines of words."""
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(words, rng.integers(*lengths))) for _ in range(num)]


def rows(num: int, cell: Callable[[np.random.Generator, int], list[Any]], *, separator: str = ",") -> list[str]:
    """Return lines of cells: `cell` gives those of one row from a generator and the row's number."""
    rng = np.random.default_rng(0)
    return [separator.join(str(value) for value in cell(rng, index)) for index in range(num)]


def idx_digits(folder_path: str, *, ending: str = "") -> Maker:
    """Write the four files of MNIST in their own format and number; with ending ``.gz`` they are compressed."""

    def make(folder: Path) -> None:
        rng = np.random.default_rng(0)
        for prefix, num in (("train", 60000), ("t10k", 10000)):
            pictures = np.resize(rng.integers(0, 256, (10, 28, 28)).astype(np.uint8), (num, 28, 28))
            labels = np.resize(np.arange(10, dtype=np.uint8), num)
            for kind, header, array in (
                ("images-idx3", struct.pack(">iiii", 2051, num, 28, 28), pictures),
                ("labels-idx1", struct.pack(">ii", 2049, num), labels),
            ):
                data = header + array.tobytes()
                target = _at(folder, f"{folder_path}/{prefix}-{kind}-ubyte{ending}")
                target.write_bytes(gzip.compress(data, 1) if ending == ".gz" else data)

    return make


class _PicklerOfPython2(pickle._Pickler):
    """A pickler of ``str`` and ``bytes`` as Python 2 had them, which readers take for the one or the other."""

    def save_string(self, value: str | bytes) -> None:
        """Write text, or bytes."""
        content = value.encode("latin1") if isinstance(value, str) else value
        self.write(pickle.BINSTRING + struct.pack("<i", len(content)) + content)

    dispatch = {**pickle._Pickler.dispatch, str: save_string, bytes: save_string}


def cifar(folder_path: str = "datasets/cifar10_data") -> Maker:
    """Write CIFAR-10 as Python 2 did, with its number of pictures; where tpack looks for it unless told."""

    def make(folder: Path) -> None:
        rng = np.random.default_rng(0)
        for name in (*(f"data_batch_{index}" for index in range(1, 6)), "test_batch"):
            pictures = np.resize(rng.integers(0, 256, (10, 3072)).astype(np.uint8), (10000, 3072))
            with open(_at(folder, f"{folder_path}/cifar-10-batches-py/{name}"), "wb") as file:
                _PicklerOfPython2(file, 2).dump({"data": pictures, "labels": list(range(10)) * 1000})

    return make


def texts_in_pictures(path: str, folder_path: str, num: int, *, length: int) -> Maker:
    """Write pictures, and what is to be read in them where: numpy's file of a dictionary of lists."""

    def make(folder: Path) -> None:
        images(f"{folder_path}/{{}}.png", num, (96, 64))(folder)
        rng = np.random.default_rng(0)
        dataset = {
            "filenames": [f"{folder_path}/{index}.png" for index in range(num)],
            "labels": rng.integers(2, 40, (num, length)).astype(np.int32),
            "masks": np.ones((num, length), np.float32),
            "bboxes": np.resize([4, 4, 60, 90], (num, 4)),
            "points": np.resize([4, 4, 90, 4, 90, 60, 4, 60], (num, 4, 2)),
        }
        np.save(_at(folder, path), np.array(dataset, object))

    return make


def word_vectors(path: str, words: list[str]) -> Maker:
    """Write vectors of words in the format of GloVe, 300 numbers each."""
    return text(
        path, [f"{word} {' '.join(['0.1'] * 299)} {index / len(words):.3f}" for index, word in enumerate(words)]
    )


def questions(path: str) -> Maker:
    """Write texts, questions and answers in the format of SQuAD."""
    paragraphs = [
        {
            "context": line,
            "qas": [
                {
                    "question": f"{line.split()[0]} ?",
                    "id": str(index),
                    "answers": [
                        {"text": line.split()[1], "answer_start": line.index(line.split()[1], len(line.split()[0]))}
                    ],
                }
            ],
        }
        for index, line in enumerate(sentence_lines(24, lengths=(8, 20)))
    ]
    return values(path, {"data": [{"title": "words", "paragraphs": paragraphs}]})


def voc_annotations(folder_path: str, num: int, size: tuple[int, int]) -> tuple[Maker, ...]:
    """Write images and what is on them, in the format of PASCAL VOC."""
    places = "".join(
        f"<{name}>{value}</{name}>" for name, value in zip(("width", "height", "depth"), (*size, 3), strict=True)
    )
    box = "<bndbox><xmin>20</xmin><ymin>30</ymin><xmax>150</xmax><ymax>160</ymax></bndbox>"
    thing = f"<object><name>cat</name><difficult>0</difficult><truncated>0</truncated>{box}</object>"
    xml = f"<annotation><size>{places}</size>{thing}{thing.replace('cat', 'dog')}</annotation>"
    return (
        images(f"{folder_path}/JPEGImages/{{:06d}}.jpg", num, size),
        *(text(f"{folder_path}/Annotations/{index:06d}.xml", xml) for index in range(num)),
    )


def point_clouds(folder_path: str) -> tuple[Maker, ...]:
    """Write clouds of points with classes, in the files of ModelNet40."""

    def make(folder: Path) -> None:
        rng = np.random.default_rng(0)
        with h5py.File(_at(folder, f"{folder_path}/points.h5"), "w") as file:
            file["data"] = rng.normal(size=(16, 128, 3)).astype(np.float32)
            file["label"] = rng.integers(0, 40, (16, 1)).astype(np.uint8)

    lists = (text(f"{folder_path}/{kind}_files.txt", [f"{folder_path}/points.h5"]) for kind in ("train", "test"))
    return (make, *lists)


def pickles(path: str, *contents: Any) -> Maker:
    """Write several pickles into one file."""
    return lambda folder: _at(folder, path).write_bytes(b"".join(pickle.dumps(each) for each in contents)) and None


def tones(pattern: str, num: int, *, rate: int = 16000) -> Maker:
    """Write sounds of a second, as WAV."""

    def make(folder: Path) -> None:
        for index in range(num):
            samples = (np.sin(np.arange(rate) * 0.05 * (index + 1)) * 20000).astype("<i2")
            with wave.open(str(_at(folder, pattern.format(index))), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(rate)
                file.writeframes(samples.tobytes())

    return make


def _at(folder: Path, path: str) -> Path:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    return target
