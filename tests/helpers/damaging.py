"""What the trial of damaged files and its small part in the suite share: formats, ways to damage, and what comes of it.

A file of each format is damaged in one place and read again, in forked children: what crashes or hangs takes only its
child along. Good are the right data, an error of tpack's, and, where a format has no checksum, other data.
"""

import json
import os
import pickle
import random
import shutil
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.dataset_files import idx_bytes
from tests.helpers.guarded import guarded
from tpack.callbacks.monitors.table_writer import JSONWriter
from tpack.dataflow.dataset.cifar import load_arrays
from tpack.dataflow.dataset.mnist import read_idx
from tpack.dataflow.iterator_state import rng_from_state, rng_state
from tpack.dataflow.sources import DataFromList
from tpack.dataflow.storage.hdf5 import HDF5Serializer
from tpack.dataflow.storage.lmdb import LMDBData, LMDBSerializer
from tpack.dataflow.storage.npz import NumpySerializer
from tpack.dataflow.storage.svmlight import SVMLightData
from tpack.dataflow.storage.tfrecord import TFRecordSerializer
from tpack.errors import InputError, TpackError
from tpack.estimator.exporters import results_in
from tpack.tfutils.checkpoint import CheckpointReader, latest_checkpoint
from tpack.tfutils.sessinit import load_npz
from tpack.tfutils.train_state import TrainState, read_data_state, read_train_state, write_data_state, write_train_state
from tpack.utils import serialize
from tpack.utils.formats import tensorpack_points

SECS_OF_A_READING = 20
GOOD, REFUSED, OTHER, RAW, CRASH, HANG = "right data", "tpack's error", "other data", "raw error", "crash", "hang"
_RNG = np.random.RandomState(8)
_POINTS = [[_RNG.randint(255, size=size).astype(np.uint8), float(size), f"point {size}"] for size in range(1, 500, 40)]
_NUM_EVENTS = 20
_ARRAYS = {"conv0/W": _RNG.rand(3, 3, 4).astype("f"), "b": np.arange(7), "step": np.int64(3)}


@dataclass(frozen=True)
class Format:
    """A format that tpack reads.

    Attributes:
        name: what it is called in the table.
        write: writes files into a directory.
        read: reads them back into plain values that can be compared as pickles.
        has_checksum: whether other data than was written must be noticed.
        files: a pattern of the files that are damaged.
    """

    name: str
    write: Callable[[Path], object]
    read: Callable[[Path], object]
    has_checksum: bool
    files: str = "*"


def _all_of(flow: Any) -> list[Any]:
    flow.reset_state()
    return list(flow)


def _read_checkpoint(directory: Path) -> object:
    reader = CheckpointReader(str(directory / "model-3"))
    return {name: reader.read(name) for name in sorted(reader.shapes)}


def _write_checkpoints(directory: Path) -> None:
    for step in (1, 2, 3):
        save_checkpoint(directory, {"W": np.full(9, step, "f")}, step)


def _write_states(directory: Path) -> None:
    write_train_state(str(directory / "model-3"), TrainState(2, 1, 3, {"MinSaver": {"best": 0.125}}))
    position = {"flow": "BatchData", "index": 30, "rng": rng_state(np.random.RandomState(1))}
    write_data_state(str(directory / "model-3"), position, 3)


def _read_states(directory: Path) -> object:
    position = read_data_state(str(directory / "model-3"), 3)
    return read_train_state(str(directory / "model-3")), position, rng_from_state(position["rng"]).randint(1000, size=9)


def _write_lmdb(directory: Path) -> None:
    LMDBSerializer.save(
        DataFromList([[number, b"some text" * 3] for number in range(600)], shuffle=False), _db(directory)
    )


def _db(directory: Path) -> str:
    return str(directory / "points.lmdb")


def _write_svmlight(directory: Path) -> None:
    lines = [f"{k % 2} {k % 5 + 1}:{k / 8} 9:{k}" for k in range(30)]
    (directory / "points.svm").write_text("\n".join(lines))


def _write_events(directory: Path) -> None:
    with tf.Graph().as_default():
        writer = tf.summary.FileWriter(str(directory))
        for step in range(_NUM_EVENTS):
            value = tf.Summary.Value(tag="loss", simple_value=step / 4)
            writer.add_summary(tf.Summary(value=[value]), step)
        writer.close()


def _read_events(directory: Path) -> object:
    (path,) = directory.iterdir()
    found = list(results_in(str(path)))
    # Nothing in such a file says how many events it has, and in which order, or that one is there twice.
    if all(loss == {"loss": step / 4} for step, loss in found):
        found = [(step, {"loss": step / 4}) for step in sorted({step for step, _ in found})]
        if len(found) < _NUM_EVENTS:
            raise InputError("what is there up to the damage was read")
    return found


def _write_statistics(directory: Path) -> None:
    entries = [{"epoch_num": epoch, "global_step": 9 * epoch, "cost": 1 / epoch} for epoch in range(1, 20)]
    (directory / JSONWriter.FILENAME).write_text(json.dumps(entries))


def _write_cifar(directory: Path) -> None:
    content = {"data": np.arange(600, dtype=np.uint8).reshape(2, 300), "labels": [3, 4], "batch_label": "one"}
    (directory / "batch").write_bytes(pickle.dumps(content, protocol=2))


def _tensorpack_bytes() -> bytes:
    array = np.arange(40, dtype="<f4")
    described = {b"nd": True, b"type": array.dtype.str, b"kind": b"", b"shape": [40], b"data": array.tobytes()}
    return msgpack.packb([described, 3, b"text"], use_bin_type=True)


def _file(name: str, content: Callable[[], bytes]) -> Callable[[Path], object]:
    return lambda directory: (directory / name).write_bytes(content())


FORMATS = [
    Format("checkpoint", lambda d: save_checkpoint(d, _ARRAYS, 3), _read_checkpoint, True, "model-3.[di]*"),
    Format("`checkpoint` file", _write_checkpoints, lambda d: latest_checkpoint(str(d)), False, "checkpoint"),
    Format("training and data state", _write_states, _read_states, True),
    Format("LMDB of tpack", _write_lmdb, lambda d: _all_of(LMDBSerializer.load(_db(d), shuffle=False)), True),
    Format("LMDB of others", _write_lmdb, lambda d: _all_of(LMDBData(_db(d), shuffle=False)), False),
    Format(
        "LMDB by key",
        _write_lmdb,
        lambda d: sorted(map(repr, _all_of(LMDBSerializer.load(_db(d), shuffle=True)))),
        True,
    ),
    Format(
        "TFRecord",
        lambda d: TFRecordSerializer.save(DataFromList(_POINTS, shuffle=False), d / "points.tfrecord"),
        lambda d: _all_of(TFRecordSerializer.load(d / "points.tfrecord", len(_POINTS))),
        True,
    ),
    Format(
        "HDF5",
        lambda d: HDF5Serializer.save(
            DataFromList([[k, np.full(9, k)] for k in range(50)], False), d / "p.h5", ["a", "b"]
        ),
        lambda d: _all_of(HDF5Serializer.load(d / "p.h5", ["a", "b"], shuffle=False)),
        True,
    ),
    Format(
        "npz of points",
        lambda d: NumpySerializer.save(DataFromList(_POINTS, shuffle=False), d / "points.npz"),
        lambda d: _all_of(NumpySerializer.load(d / "points.npz", shuffle=False)),
        True,
    ),
    Format("npz of variables", lambda d: np.savez(d / "w.npz", **_ARRAYS), lambda d: load_npz(str(d / "w.npz")), True),
    Format("stats.json", _write_statistics, lambda d: JSONWriter.load_existing_json(str(d)), False),
    Format("event file", _write_events, _read_events, True),
    Format(
        "sealed message",
        _file("m", lambda: serialize.seal(serialize.dumps(_POINTS))),
        lambda d: serialize.loads(serialize.unseal((d / "m").read_bytes())),
        True,
    ),
    Format(
        "message",
        _file("m", lambda: serialize.dumps(_POINTS)),
        lambda d: serialize.loads((d / "m").read_bytes()),
        False,
    ),
    Format(
        "tensorpack's message",
        _file("m", _tensorpack_bytes),
        lambda d: tensorpack_points.loads((d / "m").read_bytes()),
        False,
    ),
    Format("CIFAR's pickle", _write_cifar, lambda d: load_arrays(str(d / "batch")), False),
    Format(
        "MNIST's idx",
        _file("i", lambda: idx_bytes(np.arange(600).reshape(6, 10, 10))),
        lambda d: read_idx(str(d / "i"), 3),
        False,
    ),
    Format("SVMLight", _write_svmlight, lambda d: _all_of(SVMLightData(d / "points.svm", shuffle=False)), False),
]


def damage(content: bytes, moments: random.Random) -> tuple[str, bytes]:
    """Return how bytes were damaged, and what became of them."""
    kind = moments.choice(["flip", "flip", "flip header", "cut", "zero", "swap", "duplicate", "set"])
    size = len(content)
    start = moments.randrange(size)
    length = min(moments.choice([1, 2, 8, 64, 512]), size - start)
    data = bytearray(content)
    if kind == "cut":
        del data[start:]
    elif kind == "zero":
        data[start : start + length] = bytes(length)
    elif kind == "duplicate":
        data[start:start] = data[start : start + length]
    elif kind == "swap":
        other = moments.randrange(size - length + 1)
        data[start : start + length], data[other : other + length] = (
            data[other : other + length],
            data[start : start + length],
        )
    elif kind == "set":
        data[start] = moments.choice([0, 1, 127, 128, 255])
    else:
        # What stands at the beginning of a file or of a page says what is in the rest.
        place = start - start % 4096 + moments.randrange(64) if kind == "flip header" else start
        data[min(place, size - 1)] ^= 1 << moments.randrange(8)
    return f"{kind} at {start} of {size}, length {length}", bytes(data[: 2 * size])


@dataclass
class Trial:
    """Damages one format again and again.

    Attributes:
        outcomes: how often each came.
        bad: descriptions of what should not have come.
    """

    form: Format
    directory: Path
    seed: int

    def __post_init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.bad: list[str] = []
        self._whole, self._work = self.directory / "whole", self.directory / "work"
        self._log = self.directory / "outcomes.txt"

    def run(self, count: int) -> None:
        """Damage files and read them, a number of times.

        Raises:
            AssertionError: Undamaged files cannot be written and read.
        """
        self._whole.mkdir(parents=True)
        assert guarded(self._write_whole) == 0, f"{self.form.name} cannot be written and read"
        self._log.touch()
        done = 0
        while done < count:
            code = guarded(lambda first=done: self._damage_from(first, count), timeout_secs=600)
            lines = self._log.read_text().splitlines()
            if code and len(lines) == done:
                code = 1
            done = len(lines)
            if code:
                # The one that was being read when the child ended.
                outcome = HANG if code == -signal.SIGALRM else CRASH
                with open(self._log, "a") as log:
                    log.write(f"{outcome}\t{self._describe(done)} ended the process with {code}\n")
                done += 1
        for line in self._log.read_text().splitlines():
            outcome, _, description = line.partition("\t")
            self.outcomes[outcome] += 1
            if outcome in (RAW, CRASH, HANG) or (outcome == OTHER and self.form.has_checksum):
                self.bad.append(f"{self.form.name}: {outcome}: {description}")

    def _write_whole(self) -> None:
        with quiet():
            self.form.write(self._whole)
            (self.directory / "expected").write_bytes(pickle.dumps(self.form.read(self._whole)))

    def _files(self) -> list[Path]:
        return sorted(self._whole.glob(self.form.files))

    def _choose(self, number: int) -> tuple[Path, str, bytes]:
        moments = random.Random(f"{self.seed} {self.form.name} {number}")
        path = moments.choice(self._files())
        how, content = damage(path.read_bytes(), moments)
        return path, how, content

    def _describe(self, number: int) -> str:
        path, how, _ = self._choose(number)
        return f"number {number}, {path.name}: {how}"

    def _damage_from(self, first: int, count: int) -> None:
        expected = (self.directory / "expected").read_bytes()
        with quiet(), open(self._log, "a") as log:
            for number in range(first, count):
                signal.alarm(SECS_OF_A_READING)
                outcome, why = self._read_damaged(number, expected)
                log.write(f"{outcome}\t{self._describe(number)} {why}\n")
                log.flush()

    def _read_damaged(self, number: int, expected: bytes) -> tuple[str, str]:
        path, _, content = self._choose(number)
        shutil.rmtree(self._work, ignore_errors=True)
        shutil.copytree(self._whole, self._work)
        (self._work / path.name).write_bytes(content)
        try:
            found = pickle.dumps(self.form.read(self._work))
        except TpackError:
            return REFUSED, ""
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            return RAW, f"{type(error).__name__}: {str(error)[:200]!r} in {where.filename}:{where.lineno}"
        same = found.replace(b"/work/", b"/whole/") == expected or _equal(found, expected)
        return (GOOD, "") if same else (OTHER, "")


@contextmanager
def quiet() -> Iterator[None]:
    """Throw away what is said on standard error, by Python and by libraries, of files that are damaged."""
    with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
        os.dup2(nowhere.fileno(), 2)
        yield


def _equal(found: bytes, expected: bytes) -> bool:
    """Compare as text where equal values are pickled in another way, such as two references to one object."""
    return repr(pickle.loads(found)).replace("/work/", "/whole/") == repr(pickle.loads(expected))


def table(trials: list[Trial]) -> str:
    """Return how often what came of each format."""
    columns = [GOOD, REFUSED, OTHER, RAW, CRASH, HANG]
    rows = [["format", "checksum", *columns]]
    for trial in trials:
        counts = [str(trial.outcomes[column]) for column in columns]
        rows.append([trial.form.name, "yes" if trial.form.has_checksum else "no", *counts])
    rows.append(["all", "", *[str(sum(trial.outcomes[column] for trial in trials)) for column in columns]])
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows)
