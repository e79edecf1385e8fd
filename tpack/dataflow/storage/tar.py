"""Data points in tar files, in WebDataset's format: consecutive files of one name are the components of a point.

``0001.jpg`` and ``0001.cls`` are the components ``jpg`` and ``cls`` of the point ``0001``: the name of the point ends
at the first dot of the last part of the path. The type of a component is in its extension after the last dot. Nothing
is unpacked to the disk, and no format that runs code is decoded.

Source:
    The format of WebDataset, https://github.com/webdataset/webdataset.
"""

import io
import json
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from tpack.dataflow.base import DataFlow, ProxyDataFlow
from tpack.dataflow.mapping import FlatMapData
from tpack.dataflow.opencv import opencv
from tpack.dataflow.sources import DataFromList
from tpack.dataflow.storage.shards import Paths, shard_names, written_shards
from tpack.errors import ConfigError, DataPointError, InputError
from tpack.utils import logger
from tpack.utils.fs import check_inner_name, check_size
from tpack.utils.progress import get_tqdm
from tpack.utils.validation import check_arguments, check_count, check_instances, shown

KEY = "__key__"
_IMAGES = ("jpg", "jpeg", "png", "bmp", "ppm", "webp")
_BLOCK = 512
MAX_BYTES = 1 << 30
# Headers that Python reads whole: long names, and attributes.
_HEADERS = (b"L", b"K", b"x", b"g", b"X")
_MAX_HEADER_BYTES = 1 << 20


@check_arguments
class TarData(ProxyDataFlow):
    """Yield the data points in tar files of WebDataset's format.

    Images (``jpg``, ``png`` and so on) become arrays of uint8 in OpenCV's order of colours, ``cls`` a number, ``txt`` a
    text, ``json`` its value, ``npy`` an array; other components stay bytes. Of several workers each reads its own
    files, if ``path`` is the flow of these. `LocallyShuffleData` mixes points.

    Args:
        path: a file; a name with a range of numbers, such as ``train-{0000..0009}.tar``; a pattern with ``*``; several
            of them in a list; or a flow of names, as ``shard_files(files)`` is.
        components: the components of a point by extension, such as ``("jpg;jpeg;png", "cls")``, the first that exists
            of each: then points are lists. By default they are dicts of all files, with the name of the point as
            ``__key__``.
        shuffle: whether the files have a new order on each pass; not for a flow of names, which has its own.
        max_bytes: the limit of a file in a tar file, which is read whole, decompressed.
        decoders: functions that make a component of bytes, by the extension after the last dot; besides those above, or
            in their place.

    Raises:
        ConfigError: The path is invalid.
        InputError: There is no such file. Iterating raises it for a file that was cut off or is damaged, has a link, a
            name that leads out of a directory or a member above the limit, and for a component that cannot be decoded.
        DataPointError: Iterating finds a point without one of the components.

    Example:
        ``BatchData(TarData("train-{0000..0009}.tar", ("jpg", "cls"), shuffle=True), 32)``
    """

    def __init__(
        self,
        path: Paths | DataFlow,
        components: Sequence[str] | None = None,
        *,
        shuffle: bool = False,
        decoders: Mapping[str, Callable[[bytes], Any]] | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        if isinstance(path, DataFlow) and shuffle:
            raise ConfigError("TarData got shuffle=True and a flow of names: shuffle in that flow")
        if components is not None:
            wanted = "a list, such as ('jpg', 'cls')"
            components = check_instances(self, "components", components, str, least=1, expected=wanted)
        if isinstance(path, DataFlow):
            names = path
        else:
            names = DataFromList([[name] for name in shard_names(self, path)], shuffle)
        chosen = None if components is None else [name.split(";") for name in components]
        check_count(self, "max_bytes", max_bytes)
        read = partial(_read_points, components=chosen, decoders=dict(decoders or {}), max_bytes=max_bytes)
        super().__init__(FlatMapData(names, read))


class TarSerializer:
    """Writer of flows to tar files, and reader of them as flows."""

    @staticmethod
    def save(df: DataFlow, path: str | os.PathLike[str]) -> None:
        """Write one pass over a flow, after its ``reset_state``. The files take their places when all are complete.

        A point is a dict: arrays of uint8 become images by the extension, others only ``npy``; numbers become ``cls``,
        texts ``txt``, plain values ``json``; bytes are written as they are. The name of the point is its ``__key__``,
        or its number.

        Args:
            df: the flow.
            path: a file; or a name with a range of numbers, such as ``train-{0000..0009}.tar``, for several, to which
                points are dealt out in turn.

        Raises:
            ConfigError: The path is invalid.
            DataPointError: A point is not a dict, or a component cannot be written under its name.
        """
        df.reset_state()
        count = 0
        with written_shards(TarSerializer, path) as files, ExitStack() as opened:
            tars = [opened.enter_context(tarfile.open(fileobj=file, mode="w")) for file in files]
            for count, point in enumerate(get_tqdm(df), 1):
                _add_point(tars[(count - 1) % len(tars)], point, count - 1)
        logger.info("Wrote %d data points to %s", count, os.fspath(path))

    @staticmethod
    def load(path: Paths, components: Sequence[str] | None = None, shuffle: bool = False) -> DataFlow:
        """Return a flow of the points in files, as `TarData` does."""
        return TarData(path, components, shuffle=shuffle)


def _read_points(
    point: Any,
    components: Sequence[Sequence[str]] | None,
    decoders: Mapping[str, Callable[[bytes], Any]],
    max_bytes: int = MAX_BYTES,
) -> Iterator[Any]:
    """Yield the data points of a file, whose name is the first component of a point."""
    path = os.fspath(point[0] if isinstance(point, (list, tuple)) else point)
    for key, files in _grouped(path, max_bytes):
        found = {extension: _decoded(path, key, extension, data, decoders) for extension, data in files.items()}
        yield {KEY: key, **found} if components is None else _chosen(path, key, found, components)


def _chosen(path: str, key: str, found: Mapping[str, Any], components: Sequence[Sequence[str]]) -> list[Any]:
    chosen = []
    for names in components:
        there = [name for name in names if name in found]
        if not there:
            given = f"the data point {key!r} of {path} has only {', '.join(found)}"
            raise DataPointError(f"{given}: expected {' or '.join(names)}")
        chosen.append(found[there[0]])
    return chosen


def _grouped(path: str, max_bytes: int) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the name and the undecoded components, by extension, of each point in a file."""
    key: str | None = None
    files: dict[str, bytes] = {}
    for name, data in _members(path, max_bytes):
        directory, _, base = name.rpartition("/")
        stem, dot, extension = base.partition(".")
        if not dot or stem.startswith("__"):
            continue
        found = f"{directory}/{stem}" if directory else stem
        if found != key:
            if files:
                yield str(key), files
            key, files = found, {}
        if extension.lower() in files:
            raise InputError(f"{path} has the file {name!r} twice")
        files[extension.lower()] = data
    if files:
        yield str(key), files


def _members(path: str, max_bytes: int) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the files in a tar file."""
    last = "its beginning"
    try:
        with open(path, "rb") as file, tarfile.open(fileobj=file, mode="r:*", tarinfo=_Member) as tar:
            while (member := tar.next()) is not None:
                # The list of members would grow without end.
                tar.members = []  # type: ignore[attr-defined]
                if member.islnk() or member.issym():
                    raise InputError(f"{path} has the link {member.name!r} to {member.linkname!r}: expected files")
                if member.isfile():
                    check_inner_name(path, member.name)
                    check_size(f"{member.name!r} in {path}", member.size, max_bytes)
                    content = tar.extractfile(member)
                    data = b"" if content is None else content.read()
                    if len(data) < member.size:
                        raise InputError(f"{path} was cut off in {member.name!r}")
                    yield member.name, data
                last = repr(member.name)
            # Reading stops as well at a damaged header, or where a file was cut off.
            tar.fileobj.seek(tar.offset)
            block = tar.fileobj.read(_BLOCK)
            if len(block) < _BLOCK or any(block):
                how = "is damaged" if len(block) == _BLOCK else "was cut off"
                raise InputError(f"the tar file {path} {how} after {last}: its end mark is missing")
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise InputError(f"the tar file {path} is damaged or was cut off after {last}: {error}") from error


class _Member(tarfile.TarInfo):
    """Header of a member; headers that hold long names or attributes, read whole, have a limit."""

    def _proc_member(self, tarfile: tarfile.TarFile) -> tarfile.TarInfo:
        if self.size > _MAX_HEADER_BYTES and self.type in _HEADERS:
            raise InputError(f"a header has {self.size} bytes: expected at most {_MAX_HEADER_BYTES}")
        # Python's own method for subclasses to replace.
        return super()._proc_member(tarfile)  # type: ignore[misc]


def _decoded(path: str, key: str, extension: str, data: bytes, decoders: Mapping[str, Callable[[bytes], Any]]) -> Any:
    last = extension.rpartition(".")[2]
    decode = decoders.get(last, DECODERS.get(last))
    if decode is None:
        return data
    try:
        return decode(data)
    except Exception as error:
        raise InputError(f"{key}.{extension} in {path} cannot be decoded: {error}") from error


def _image(data: bytes) -> np.ndarray:
    cv = opencv()
    image = cv.imdecode(np.frombuffer(data, np.uint8), cv.IMREAD_COLOR) if data else None
    if image is None:
        raise InputError(f"its {len(data)} bytes are not an image")
    return image


DECODERS: dict[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(_IMAGES, _image),
    "cls": int,
    "json": json.loads,
    "npy": lambda data: np.load(io.BytesIO(data), allow_pickle=False),
    "txt": partial(str, encoding="utf-8"),
}
"""The functions that make a component of bytes, by its extension after the last dot."""


def _add_point(tar: tarfile.TarFile, point: Any, number: int) -> None:
    if not isinstance(point, Mapping):
        kind = type(point).__name__
        raise DataPointError(f"data point {number} is a {kind}: expected a dict such as {{'jpg': image, 'cls': 3}}")
    key = str(point.get(KEY, f"{number:09d}"))
    if not key or "." in key.rpartition("/")[2]:
        raise DataPointError(f"data point {number} has the {KEY} {key!r}: expected a name without a dot")
    try:
        check_inner_name(f"data point {number}", key)
    except InputError as error:
        raise DataPointError(str(error)) from error
    for extension, value in point.items():
        if extension == KEY:
            continue
        data = _encoded(extension, value, number)
        member = tarfile.TarInfo(f"{key}.{extension}")
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))


def _encoded(extension: str, value: Any, number: int) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    last = str(extension).rpartition(".")[2]
    try:
        if last in _IMAGES and isinstance(value, np.ndarray) and value.dtype == np.uint8:
            return _image_bytes(last, value)
        if last == "npy":
            file = io.BytesIO()
            np.save(file, np.asarray(value), allow_pickle=False)
            return file.getvalue()
        if last == "cls":
            return str(int(value)).encode()
        if last == "txt" and isinstance(value, str):
            return value.encode()
        if last == "json":
            return json.dumps(value).encode()
    except (TypeError, ValueError) as error:
        message = f"data point {number} has {extension}={shown(value)}, which cannot be written"
        raise DataPointError(f"{message}: {error}") from error
    raise DataPointError(
        f"data point {number} has {extension}={shown(value)}: expected bytes, or a name that ends in cls, txt, json, "
        f"npy or, for an array of uint8, {', '.join(_IMAGES)}"
    )


def _image_bytes(extension: str, image: np.ndarray) -> bytes:
    cv = opencv()
    try:
        is_done, data = cv.imencode(f".{extension}", image)
    except cv.error as error:
        raise ValueError(f"an array of shape {image.shape} is not an image") from error
    if not is_done:
        raise ValueError(f"OpenCV does not write {extension}")
    return bytes(data)
