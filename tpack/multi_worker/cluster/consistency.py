"""Consistency check of the workers before the first step: code, variables, settings.

Workers that differ in their code, variables or steps per epoch train something wrong, or wait for each other forever.
So all exchange these facts, and any difference is an error in all of them.
"""

import hashlib
import importlib.metadata
import json
import os
import platform
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any
from zlib import crc32

import numpy as np

from tpack.errors import ClusterError
from tpack.multi_worker.cluster.peers import Peers
from tpack.multi_worker.control.server import workers
from tpack.types import Session
from tpack.utils.validation import check_arguments
from tpack.version import __version__

_MOST_LINES = 20
_NOTHING = "nothing"
_ROW_BYTES = 8192
_LONGEST_VALUE = 80


@check_arguments
def check_consistency(peers: Peers, fields: Mapping[str, Any]) -> None:
    """Raise an error in all workers if they have different values; all call it.

    Args:
        peers: the workers.
        fields: {name: value of this worker}. Values are JSON. Of a dict, such as that of all variables, only the
            entries that differ are shown; of lists, whose order counts, the first place that differs.

    Raises:
        ClusterError: They differ; the message lists the values and their workers.

    Example:
        ``check_consistency(peers, {"batch size": 64, "variables": {"w": "(3, 4) float32"}, **program()})``
    """
    flat = dict(_entries("", fields))
    digest = hashlib.sha256(json.dumps(flat, sort_keys=True).encode()).hexdigest()
    # In the usual case only digests are sent.
    if len(set(peers.gather("digests of what workers have", digest))) == 1:
        return
    told = peers.gather("what workers have", flat)
    lines = [line for name in sorted(set().union(*told)) if (line := _difference(name, told))]
    shown = "".join(f"\n    {line}" for line in lines[:_MOST_LINES])
    more = f"\n    and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
    raise ClusterError(f"the workers do not agree; expected the same in all of them:{shown}{more}")


def compare_values(peers: Peers, session: Session, variables: Sequence[Any], what: str) -> None:
    """Raise an error in all workers if variables have different values in them.

    Raises:
        ClusterError: They differ; the message names the variables.
    """
    values = session.run(list(variables))
    check_consistency(peers, {what: {v.op.name: checksum(value) for v, value in zip(variables, values, strict=True)}})


def checksum(value: np.ndarray) -> int:
    """Return a checksum of the bytes of an array: of the sums of rows and columns of its words, five times faster."""
    array = np.asarray(value)
    if array.dtype.hasobject:
        return crc32(repr(array.tolist()).encode())
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    whole = len(data) // _ROW_BYTES * _ROW_BYTES
    words = data[:whole].view(np.uint64).reshape(-1, _ROW_BYTES // 8)
    return crc32(b"".join(part.tobytes() for part in (words.sum(axis=1), words.sum(axis=0), data[whole:])))


def program() -> dict[str, Any]:
    """Return versions, and digests of the script's files, which identify the program.

    The files are the script, and the modules that were loaded from its directory or below.
    """
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    script = os.path.abspath(main) if main else None
    return {
        "versions": {
            "python": ".".join(platform.python_version_tuple()[:2]),
            "tpack": __version__,
            **{name: _version(name) for name in ("numpy", "tensorflow")},
        },
        "files": {} if script is None else dict(_files_of(script)),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _files_of(script: str) -> Iterator[tuple[str, str]]:
    """Yield name and digest of each file of the program in the directory of the script."""
    directory = os.path.dirname(script)
    loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    for path in sorted({os.path.abspath(path) for path in loaded if path} | {script}):
        name = os.path.relpath(path, directory)
        if name.startswith(os.pardir) or "site-packages" in path or not path.endswith(".py"):
            continue
        with open(path, "rb") as file:
            yield name, hashlib.sha256(file.read()).hexdigest()[:16]


def _entries(prefix: str, fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and value, as text, of each entry; those of dicts one by one."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _entries(f"{prefix}{name}: ", value)
        else:
            yield f"{prefix}{name}", json.dumps(value, sort_keys=True)


def _difference(name: str, told: list[dict[str, str]]) -> str:
    """Return a line with the values and their workers; "" if all have the same."""
    values = [fields.get(name, _NOTHING) for fields in told]
    if len(set(values)) > 1 and all(value.startswith("[") for value in values):
        lists = [[json.dumps(entry) for entry in json.loads(value)] for value in values]
        place = next(place for place, entries in enumerate(zip_longest(*lists)) if len(set(entries)) > 1)
        name = f"{name}, number {place + 1}"
        values = [entries[place] if place < len(entries) else _NOTHING for entries in lists]
    ranks: defaultdict[str, list[int]] = defaultdict(list)
    for rank, value in enumerate(values):
        ranks[value].append(rank)
    if len(ranks) == 1:
        return ""
    shown = [
        f"{value if len(value) <= _LONGEST_VALUE else f'{value[: _LONGEST_VALUE - 3]}...'} in {workers(those)}"
        for value, those in ranks.items()
    ]
    return f"{name}: {', '.join(shown)}"
