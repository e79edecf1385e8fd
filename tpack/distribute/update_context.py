"""On which device a strategy updates a variable now, inside `update` and `update_non_slot`."""

import contextvars
from types import TracebackType
from typing import Any

_current: contextvars.ContextVar[Any] = contextvars.ContextVar("tpack_update_device", default=None)


def get_update_device() -> Any:
    """Return the device of the update that is built now, or None outside `update` and `update_non_slot`.

    Returns:
        A device name; under the default strategy, what is updated.

    Shapes:
        No tensors.

    Raises:
        Nothing.

    Source:
        The seed ``distribute``.
    """
    return _current.get()


class UpdateContext:
    """The block in which one device is updated; blocks can be nested.

    Args:
        device: the device.

    Source:
        The seed ``distribute``.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._tokens: list[Any] = []

    def __enter__(self) -> None:
        self._tokens.append(_current.set(self._device))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _current.reset(self._tokens.pop())
