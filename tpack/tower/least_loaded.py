"""Give work to whichever device has the least so far."""

from collections.abc import Sequence

from tpack.errors import ConfigError


class LeastLoaded:
    """A list of devices, each with the bytes that were given to it; equal loads go to the first.

    Args:
        devices: names, in the order of preference.

    Raises:
        ConfigError: ``devices`` is empty.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        if not devices:
            raise ConfigError("wanted at least one device to balance over, got an empty list")
        self.devices = tuple(devices)
        self.sizes = [0] * len(self.devices)

    def take(self, size_bytes: int) -> str:
        """Return the least loaded device after adding ``size_bytes`` to it."""
        index = min(range(len(self.sizes)), key=self.sizes.__getitem__)
        self.sizes[index] += size_bytes
        return self.devices[index]
