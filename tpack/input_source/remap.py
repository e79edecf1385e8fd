"""Use a source that supplies only some of the inputs of a model."""

from collections.abc import Sequence
from typing import Any

from tpack.errors import ConfigError
from tpack.input_source.base import InputSource
from tpack.input_source.placeholder import build_or_reuse_placeholder
from tpack.input_source.proxy import ProxyInput


def remap_input_source(input: InputSource, names: Sequence[str]) -> InputSource:
    """Make a source for the inputs that are named, out of ``input``; the others become placeholders.

    Args:
        input: a source whose components are the inputs ``names``, in this order.
        names: names of entries of the signature.

    Returns:
        A source for the whole signature. Whoever runs it feeds the placeholders of the other entries.

    Raises:
        ConfigError: ``input`` is no input source, or a name is there twice; in `setup`, the signature lacks one.
    """
    return _RemappedInput(input, names)


class _RemappedInput(ProxyInput):
    def __init__(self, input: InputSource, names: Sequence[str]) -> None:
        super().__init__(input)
        self._names = list(names)
        self._placeholders: dict[str, Any] = {}
        if len(set(self._names)) < len(self._names):
            raise ConfigError(f"remap_input_source wants different names, got {self._names}")

    def _setup(self, signature: Sequence[Any]) -> None:
        specs = {spec.name: spec for spec in signature}
        missing = [name for name in self._names if name not in specs]
        if missing:
            raise ConfigError(f"the signature has no entry {missing}, only {list(specs)}, so {self} cannot supply it")
        super()._setup([specs[name] for name in self._names])
        others = {name: spec for name, spec in specs.items() if name not in self._names}
        self._placeholders = {name: build_or_reuse_placeholder(spec) for name, spec in others.items()}

    def _get_input_tensors(self) -> Sequence[Any]:
        supplied = dict(zip(self._names, super()._get_input_tensors(), strict=True))
        tensors = {**self._placeholders, **supplied}
        return [tensors[spec.name] for spec in self._require_setup()]
