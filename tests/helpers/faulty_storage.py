"""Remote storage in memory that fails when it is told to, as ``faulty://`` of fsspec."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem


class FaultyStorage(MemoryFileSystem):
    """Objects in memory; each operation first does what it is told to.

    Attributes:
        store: the objects by path, for all instances.
        faults: functions that are called with the operation and the path, one for each operation until none is left;
            what one returns, if not None, takes the place of what is put.
        log: the operations that changed something, and the names of their objects.
    """

    protocol = "faulty"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    faults: ClassVar[deque[Callable[[str, str], Any]]] = deque()
    log: ClassVar[list[tuple[str, str]]] = []
    cachable = False

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.removeprefix("faulty://"))

    def _faulty(self, operation: str, path: str) -> Any:
        return self.faults.popleft()(operation, path) if self.faults else None

    def _note(self, operation: str, path: str) -> None:
        self.log.append((operation, path.rpartition("/")[2]))

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        with open(lpath, "rb") as file:
            self.pipe_file(rpath, file.read())

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        changed = self._faulty("put", path)
        super().pipe_file(path, value if changed is None else changed, **options)
        self._note("put", path)

    def get_file(self, rpath: str, lpath: str, **options: Any) -> None:
        changed = self._faulty("get", rpath)
        super().get_file(rpath, lpath, **options)
        if changed is not None:
            with open(lpath, "wb") as file:
                file.write(changed)
        self._note("get", rpath)

    def find(self, path: str, **options: Any) -> Any:
        self._faulty("list", path)
        return super().find(path, **options)

    def rm_file(self, path: str) -> None:
        self._faulty("remove", path)
        super().rm_file(path)
        self._note("remove", path)


class Hanging:
    """A fault that waits until it is let go."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def __call__(self, operation: str, path: str) -> None:
        self.released.wait()


def unreachable(operation: str, path: str) -> None:
    """Fail as a network does."""
    raise OSError(f"503 Slow Down: {operation}")


def half(operation: str, path: str) -> bytes:
    """Leave half an object."""
    return b"half"


@contextmanager
def faulty_storage() -> Iterator[type[FaultyStorage]]:
    """Give empty storage without faults."""
    fsspec.register_implementation("faulty", FaultyStorage, clobber=True)
    for part in (FaultyStorage.store, FaultyStorage.faults, FaultyStorage.log):
        part.clear()
    FaultyStorage.pseudo_dirs[:] = [""]
    yield FaultyStorage
