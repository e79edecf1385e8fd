"""An input source around another one."""

from collections.abc import Sequence
from typing import Any

from tpack.callbacks.base import Callback
from tpack.errors import ConfigError
from tpack.input_source.base import InputSource


class ProxyInput(InputSource):
    """Behave as the inner source does; subclasses change the tensors.

    Args:
        input: the inner source, which nobody else may use.

    Raises:
        ConfigError: The inner source is no input source.
    """

    def __init__(self, input: InputSource) -> None:
        if not isinstance(input, InputSource):
            raise ConfigError(f"{self} wraps an InputSource, got {input!r}")
        self.input = input

    def data_state(self) -> dict[str, Any] | None:
        """Return the position of the inner source."""
        return self.input.data_state()

    def load_data_state(self, state: Any) -> None:
        """Send the inner source to a position."""
        self.input.load_data_state(state)

    def hold_back(self, num_times: int) -> None:
        """Pass it on to the inner source."""
        self.input.hold_back(num_times)

    def _setup(self, signature: Sequence[Any]) -> None:
        self.input.setup(signature)

    def _get_input_tensors(self) -> Sequence[Any]:
        return self.input.get_input_tensors()

    def _reset_state(self) -> None:
        self.input.reset_state()

    def _size(self) -> int:
        return self.input.size()

    def _make_callbacks(self) -> Sequence[Callback]:
        # The inner source resets itself before training; to reset it through the proxy too would be once too often.
        return [*self.input.get_callbacks(), *self._get_callbacks()]
