"""The GPUs of this process and their load, from NVIDIA's library, without starting TensorFlow or CUDA.

The library counts GPUs in the order of the PCI bus; only `NVMLContext.visible_devices` heeds ``CUDA_VISIBLE_DEVICES``.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType, TracebackType

from tpack.errors import DependencyError, DeviceError
from tpack.utils.env import change_env
from tpack.utils.lazy import import_optional

__all__ = ["NVMLContext", "NvidiaDevice", "change_gpu", "get_nr_gpu", "get_num_gpu", "visible_gpu_names"]


_TIMEOUT_SECS = 30.0


def change_gpu(val: int | str | Iterable[int | str] | None) -> AbstractContextManager[None]:
    """Set ``CUDA_VISIBLE_DEVICES`` in a ``with`` block, for child processes, and for this one before its first session.

    Args:
        val: one or several numbers of GPUs, or the variable's text; None, -1 or an empty list hides all GPUs.

    Example:
        with change_gpu([0, 2]):
            process.start()
    """
    if val is None:
        return change_env("CUDA_VISIBLE_DEVICES", "-1")
    names = [str(val)] if isinstance(val, int | str) else [str(each) for each in val]
    return change_env("CUDA_VISIBLE_DEVICES", ",".join(names) or "-1")


def get_num_gpu() -> int:
    """Return the number of this process's GPUs, by ``CUDA_VISIBLE_DEVICES``, NVIDIA's library or ``nvidia-smi``."""
    names = visible_gpu_names()
    if names is not None:
        return len(names)
    try:
        with NVMLContext() as nvml:
            return nvml.num_devices()
    except (DependencyError, DeviceError):
        return _count_by_command()


get_nr_gpu = get_num_gpu


class NvidiaDevice:
    """One GPU of an open context.

    Args:
        library: the module ``pynvml``.
        handle: the library's handle of the GPU.
    """

    def __init__(self, library: ModuleType, handle: object) -> None:
        self._library = library
        self._handle = handle

    def name(self) -> str:
        """Return the GPU's name, such as ``"NVIDIA H200"``.

        Raises:
            DeviceError: The GPU does not answer; as for all methods.
        """
        return _text(self._ask("name", "nvmlDeviceGetName"))

    def uuid(self) -> str:
        """Return the GPU's identifier, which begins with ``"GPU-"``."""
        return _text(self._ask("identifier", "nvmlDeviceGetUUID"))

    def memory(self) -> dict[str, int]:
        """Return bytes of memory: ``"total"``, ``"free"``, and ``"used"`` by all processes."""
        info = self._ask("memory", "nvmlDeviceGetMemoryInfo")
        return {key: int(getattr(info, key)) for key in ("total", "free", "used")}

    def utilization(self) -> dict[str, int]:
        """Return busy percentages of kernels (``"gpu"``) and ``"memory"``; a GPU in instances raises DeviceError."""
        rates = self._ask("utilization", "nvmlDeviceGetUtilizationRates")
        return {key: int(getattr(rates, key)) for key in ("gpu", "memory")}

    def _ask(self, what: str, function: str) -> object:
        with _device_errors(self._library, f"the GPU does not tell its {what}"):
            return getattr(self._library, function)(self._handle)


class NVMLContext:
    """A ``with`` block in which the library is open.

    Raises:
        DependencyError: On entering, the package ``nvidia-ml-py`` is not installed.
        DeviceError: On entering, the machine has no NVIDIA driver; or a GPU does not answer.

    Example:
        with NVMLContext() as nvml:
            used = [gpu.memory()["used"] for gpu in nvml.visible_devices()]
    """

    _library: ModuleType | None = None

    def __enter__(self) -> "NVMLContext":
        library = import_optional("pynvml", "gpu")
        with _device_errors(library, "NVIDIA's management library cannot be used on this machine"):
            library.nvmlInit()
        self._library = library
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        library, self._library = self._opened(), None
        with _device_errors(library, "NVIDIA's management library cannot be closed"):
            library.nvmlShutdown()

    def num_devices(self) -> int:
        """Return the machine's number of GPUs.

        Raises:
            DeviceError: The context is not open, or the library does not answer.
        """
        library = self._opened()
        with _device_errors(library, "the number of GPUs cannot be found out"):
            return int(library.nvmlDeviceGetCount())

    def device(self, idx: int) -> NvidiaDevice:
        """Return GPU number ``idx``, in the order of the PCI bus.

        Raises:
            DeviceError: There is none.
        """
        count = self.num_devices()
        if not 0 <= idx < count:
            raise DeviceError(f"there is no GPU {idx}: this machine has {count}")
        library = self._opened()
        with _device_errors(library, f"GPU {idx} cannot be opened"):
            return NvidiaDevice(library, library.nvmlDeviceGetHandleByIndex(idx))

    def devices(self) -> list[NvidiaDevice]:
        """Return all GPUs of the machine."""
        return [self.device(idx) for idx in range(self.num_devices())]

    def visible_devices(self) -> list[NvidiaDevice]:
        """Return the GPUs in ``CUDA_VISIBLE_DEVICES``, in its order; all if it is not set.

        Entries are numbers or prefixes of identifiers; as in CUDA, those from the first unknown one on are ignored.
        Numbers agree with CUDA if ``CUDA_DEVICE_ORDER`` is ``PCI_BUS_ID`` or all GPUs are alike.
        """
        names = visible_gpu_names()
        devices = self.devices()
        if names is None:
            return devices
        visible: list[NvidiaDevice] = []
        for name in names:
            found = _find(name, devices)
            if found is None:
                break
            visible.append(found)
        return visible

    def _opened(self) -> ModuleType:
        if self._library is None:
            raise DeviceError("NVMLContext is not open: expected a use in `with NVMLContext() as nvml:`")
        return self._library


def visible_gpu_names() -> list[str] | None:
    """Return the entries of ``CUDA_VISIBLE_DEVICES`` before the first empty or negative one; None if it is not set."""
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return None
    names: list[str] = []
    for name in map(str.strip, text.split(",")):
        if not name or name.startswith("-") or name == "NoDevFiles":
            break
        names.append(name)
    return names


def _count_by_command() -> int:
    """Count the GPUs in the output of ``nvidia-smi -L``; 0 if it fails."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return 0
    try:
        done = subprocess.run([command, "-L"], capture_output=True, text=True, timeout=_TIMEOUT_SECS, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines())


def _find(name: str, devices: list[NvidiaDevice]) -> NvidiaDevice | None:
    """Return the device of an entry of ``CUDA_VISIBLE_DEVICES``, or None."""
    if name.isdigit():
        return devices[int(name)] if int(name) < len(devices) else None
    matches = [device for device in devices if device.uuid().startswith(name)]
    return matches[0] if len(matches) == 1 else None


def _text(value: object) -> str:
    # Old versions of the library answer in bytes.
    return value.decode() if isinstance(value, bytes) else str(value)


@contextmanager
def _device_errors(library: ModuleType, what: str) -> Iterator[None]:
    """Turn the library's errors into a DeviceError that begins with ``what``."""
    try:
        yield
    except library.NVMLError as error:
        raise DeviceError(f"{what}: {error}") from error
