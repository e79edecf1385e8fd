"""``step_fn`` of ``tf.contrib.distribute``: what one step of a strategy does."""

from tpack.tf1.name_table import look_up

_NAMES = ("StandardInputStep", "StandardSingleLossStep", "Step")

__getattr__, __dir__, __all__ = look_up(__name__, {name: f"tpack.distribute:{name}" for name in _NAMES})
