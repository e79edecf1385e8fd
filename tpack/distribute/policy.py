"""What a strategy implements: its devices, and what it does where `DistributionStrategy` has checked that it may.

A strategy derives from `tpack.distribute.strategy.DistributionStrategy`, which holds what users call.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.values import DistributedValues
from tpack.errors import ConfigError


class StrategyPolicy:
    """The part of a strategy that is different in each. What is not implemented here is for a subclass.

    Attributes:
        is_default: whether it is the default strategy.

    Source:
        The methods with an underscore of the strategies in the seed ``distribute``.
    """

    is_default = False

    def __init__(self) -> None:
        self._default_device: Any = None

    @property
    def is_single_tower(self) -> bool:
        """Whether there is a single tower."""
        return self.num_towers == 1

    @property
    def num_towers(self) -> int:
        """K, the number of towers to average over."""
        raise NotImplementedError

    @property
    def worker_devices(self) -> list[str]:
        """The devices that towers run on, in their order."""
        raise NotImplementedError

    @property
    def parameter_devices(self) -> list[str]:
        """The devices that variables are on and updated on."""
        raise NotImplementedError

    def non_slot_devices(self, var_list: Sequence[Any]) -> Any:
        """Return where the non-slot variables of an optimizer go, for `colocate_vars_with` and `update_non_slot`.

        Args:
            var_list: the variables that are optimized.
        """
        raise NotImplementedError

    def configure(self, session_config: Any = None) -> None:
        """Choose what suits a session of this ``ConfigProto``; nothing in this base class."""

    def _create_variable(self, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        """Make a variable; ``colocate_with`` among the arguments is what `colocate_vars_with` was given."""
        raise NotImplementedError

    def _read_var(self, v: Any) -> Any:
        raise NotImplementedError

    def _distribute_dataset(self, dataset_fn: Callable[[], Any]) -> Any:
        raise NotImplementedError

    def _call_dataset_fn(self, dataset_fn: Callable[[], Any]) -> Any:
        result = dataset_fn()
        if not isinstance(result, tf.compat.v2.data.Dataset):
            raise ConfigError(f"dataset_fn() must return a tf.data.Dataset under a strategy, it returned {result!r}")
        return result

    def _broadcast(self, tensor: Any, destinations: Any) -> Any:
        raise NotImplementedError

    def _call_for_each_tower(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _reduce(self, aggregation: Any, value: Any, destinations: Any) -> Any:
        raise NotImplementedError

    def _batch_reduce(self, aggregation: Any, value_destination_pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        return [self._reduce(aggregation, value, destinations) for value, destinations in value_destination_pairs]

    def _update(self, var: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _update_non_slot(self, colocate_with: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _update_by_optimizer(self, optimizer: Any, grads_and_vars: Sequence[tuple[Any, Any]], name: str) -> list[Any]:
        """Apply reduced gradients to variables of one copy; return the operations."""
        return [optimizer.apply_gradients(list(grads_and_vars), name=name)]

    def _unwrap(self, distributed_value: Any) -> list[Any]:
        if isinstance(distributed_value, DistributedValues):
            return list(distributed_value.index.values())
        return [distributed_value]

    def _worker_device_index(self) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"
