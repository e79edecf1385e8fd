"""An input source around another one, and a source of some of a model's inputs."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.dataflow.base import DataFlow
from tpack.errors import ConfigError
from tpack.input_source.base import InputSource
from tpack.input_source.tensors import build_or_reuse_placeholder
from tpack.utils.validation import check_arguments, check_instance, check_instances, shown

_WANTED = "an InputSource; QueueInput(dataflow) and TFDatasetInput(dataset) are"


class ProxyInput(InputSource):
    """Wrapper of an input source of its own; subclasses change the tensors. Other objects are refused."""

    def __init__(self, input: InputSource) -> None:
        self.input = check_instance(self, "input", input, InputSource, _WANTED)

    def steps_of_pass(self, num_towers: int) -> int:
        """Return the number of the inner source."""
        return self.input.steps_of_pass(num_towers)

    def samples(self) -> tuple[int | None, int | None]:
        """Return the numbers of the inner source."""
        return self.input.samples()

    def data_state(self) -> dict[str, Any] | None:
        """Return the position of the inner source."""
        return self.input.data_state()

    def load_data_state(self, state: dict[str, Any]) -> None:
        """Start the inner source at a position."""
        self.input.load_data_state(state)

    def deal_data_states(self, states: Sequence[dict[str, Any]], rank: int, size: int) -> None:
        """Start the inner source where former workers stopped."""
        self.input.deal_data_states(states, rank, size)

    @property
    def dataflow(self) -> DataFlow | None:
        """The dataflow of the inner source."""
        return self.input.dataflow

    def mark_prefetched(self, num_times: int) -> None:
        """Pass it on to the inner source."""
        self.input.mark_prefetched(num_times)

    def _setup(self, signature: Sequence[tf.TensorSpec]) -> None:
        self.input.setup(signature)

    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        return self.input.get_input_tensors()

    def _reset_state(self) -> None:
        self.input.reset_state()

    def _size(self) -> int:
        return self.input.size()

    def _make_callbacks(self) -> Sequence[Callback]:
        # The inner source resets itself before training, so the proxy does not.
        return [*self.input.get_callbacks(), *self._get_callbacks()]


@check_arguments
def remap_input_source(input: InputSource, names: Sequence[str]) -> InputSource:
    """Return a source of the whole signature: the named inputs from ``input``, in order, else placeholders to feed.

    Raises:
        ConfigError: ``input`` is not an input source, or a name is there twice; in `setup`, the signature lacks one.
    """
    return _RemappedInput(input, names)


class _RemappedInput(ProxyInput):
    def __init__(self, input: InputSource, names: Sequence[str]) -> None:
        super().__init__(input)
        self._names = check_instances("remap_input_source", "names", names, str)
        self._placeholders: dict[str, tf.Tensor] = {}
        if len(set(self._names)) < len(self._names):
            raise ConfigError(f"remap_input_source got names={shown(self._names)}: expected each once")

    def _setup(self, signature: Sequence[tf.TensorSpec]) -> None:
        specs = {spec.name: spec for spec in signature}
        missing = [name for name in self._names if name not in specs]
        if missing:
            raise ConfigError(f"the signature has no entry {missing}, only {list(specs)}, so {self} cannot supply it")
        super()._setup([specs[name] for name in self._names])
        others = {name: spec for name, spec in specs.items() if name not in self._names}
        self._placeholders = {name: build_or_reuse_placeholder(spec) for name, spec in others.items()}

    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        supplied = dict(zip(self._names, super()._get_input_tensors(), strict=True))
        tensors = {**self._placeholders, **supplied}
        return [tensors[spec.name] for spec in self._require_setup()]
