"""A stand-in for the module ``pynvml``, with GPUs whose numbers are known."""

from types import SimpleNamespace
from typing import Any


class FakeNVML:
    """The functions of ``pynvml`` that tpack uses, over `gpus`: a list of dicts.

    A gpu has ``name`` and ``uuid``, ``memory`` (total, used) in bytes, and ``utilization`` (gpu, memory) in percent, or
    None where it does not tell. With ``driver=False`` the library cannot be opened. `num_open` counts open contexts.
    """

    class NVMLError(Exception):
        pass

    def __init__(self, gpus: list[dict[str, Any]], *, driver: bool = True) -> None:
        self.gpus = gpus
        self.driver = driver
        self.num_open = 0

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.driver:
            raise self.NVMLError("Driver Not Loaded")
        self.num_open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.num_open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, idx: int) -> int:  # noqa: N802
        return idx

    def nvmlDeviceGetName(self, handle: int) -> Any:  # noqa: N802
        return self.gpus[handle]["name"]

    def nvmlDeviceGetUUID(self, handle: int) -> Any:  # noqa: N802
        return self.gpus[handle]["uuid"]

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        total, used = self.gpus[handle]["memory"]
        return SimpleNamespace(total=total, used=used, free=total - used)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        if self.gpus[handle]["utilization"] is None:
            raise self.NVMLError("Not Supported")
        gpu, memory = self.gpus[handle]["utilization"]
        return SimpleNamespace(gpu=gpu, memory=memory)


def two_gpus() -> FakeNVML:
    """Return a library with two GPUs, the second of which does not tell its utilization."""
    return FakeNVML(
        [
            {"name": b"Old 1", "uuid": "GPU-aaaa-1", "memory": (100, 30), "utilization": (70, 20)},
            {"name": "New 2", "uuid": "GPU-abbb-2", "memory": (200, 50), "utilization": None},
        ]
    )
