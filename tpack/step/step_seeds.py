"""Random numbers that follow from the seed, the step and the place, so that a resumed run draws the same ones.

TensorFlow's random operations keep their position in a state that checkpoints lack: a resumed process would draw the
numbers of the first step again. `uniform_of_step` has no state: a mask at step 1000 is the same whether the run began
with step 1 or 1000, and differs between steps, places and towers. All other random operations get another seed on a
resume, by `begin_at_step`.

The generator is Philox. Seed and step make its key, once a run for the whole graph; the place is the upper half of its
counter, a constant. So a draw costs one operation, as with a state.
"""

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.graphs import is_building_gradient, is_in_loop_or_function
from tpack.errors import ConfigError
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tower.collections import WORKER_RANK_KEY
from tpack.tower.context import TowerContext, get_current_tower_context
from tpack.tower.names import Scope
from tpack.tower.per_graph import PerGraph, built_graph

Sampler: TypeAlias = Callable[..., tf.Tensor]
_PHILOX = 1
_SEED_WITHOUT_ANY = 87654321
"""What TensorFlow takes for the seed of a graph where only an operation has one."""


class _Randomness:
    """The random numbers of one graph.

    Attributes:
        follows_steps: whether the global step differs between runs of the training towers.
        given_seed: the graph's seed by the program.
        seed_of_run: the seed in its place, for this run alone.
        chance: the seed if the program set none.
        num_calls: the number of calls for each tower and variable scope.
    """

    def __init__(self) -> None:
        self.follows_steps = False
        self.given_seed: int | None = None
        self.seed_of_run: int | None = None
        self.chance = int.from_bytes(os.urandom(8), "little") >> 1
        self.num_calls: defaultdict[str, int] = defaultdict(int)
        self._keys: dict[int, tf.Tensor] = {}

    def seed_of(self, graph: tf.Graph) -> int | None:
        """Return the program's last seed, also one that was set after `begin_at_step`."""
        return self.given_seed if graph.seed == self.seed_of_run else graph.seed

    def key_of(self, seed: int) -> tf.Tensor:
        """Return the key of Philox at this step for a seed, computed once in a run."""
        if seed not in self._keys:
            step = get_global_step_var()
            with tf.name_scope(None), tf.device(None), tf.device("/device:CPU:0"):
                pair = tf.stack([tf.constant(seed, tf.int64), step], name="seed_of_step")
                self._keys[seed] = tf.raw_ops.StatelessRandomGetKeyCounter(seed=pair, name="key_of_step").key
        return self._keys[seed]


_randomness: PerGraph[_Randomness] = PerGraph(_Randomness)


def let_seeds_follow_steps() -> None:
    """Declare that the current graph's global step differs between runs of the training towers."""
    _randomness.here().follows_steps = True


def begin_at_step(num_steps: int) -> None:
    """Give the current graph, before it is built, another seed for a run after earlier steps; none keep the seed."""
    graph, randomness = built_graph(), _randomness.here()
    if num_steps:
        randomness.given_seed = graph.seed
        base = _SEED_WITHOUT_ANY if graph.seed is None else graph.seed
        randomness.seed_of_run = _hashed(f"{base} {num_steps}") % 2**31
        tf.set_random_seed(randomness.seed_of_run)


def differ_by_worker(rank: int) -> None:
    """Give the current graph, before it is built, another seed on each worker but rank 0, as if the program had set it.

    Otherwise all workers would draw the same masks for different data.
    """
    graph = built_graph()
    if rank:
        base = _SEED_WITHOUT_ANY if graph.seed is None else graph.seed
        tf.set_random_seed(_hashed(f"{base} worker {rank}") % 2**31)
        graph.add_to_collection(WORKER_RANK_KEY, rank)


def uniform_of_step(kind: str, seed: int | None = None) -> Sampler | None:
    """Return a function that draws from [0, 1) for the current tower, and other numbers at each step.

    The place is the variable scope and the number of the call in it. Recomputation for gradients, as by
    ``tf.recompute_grad``, draws the numbers of the first time.

    Args:
        kind: the caller, such as ``"Dropout"``; calls are counted for each kind.
        seed: the operation's own seed, if it has one.

    Returns:
        ``function(shape, dtype)``, to be called once. None where no step distinguishes runs: outside a trainer's
        training towers, with a ``run_step`` of the trainer's own, and in loops and functions.

    Raises:
        ConfigError: A call in recomputation matches more than one in the same scope.
    """
    tower, randomness, graph = get_current_tower_context(), _randomness.here(), built_graph()
    is_countable = randomness.follows_steps and not is_in_loop_or_function(tf.get_default_graph())
    if tower is None or not tower.is_training or not is_countable:
        return None
    scope = tf.get_variable_scope().name
    number = _number(f"{kind} {tower.index} {scope}", randomness.num_calls, kind)
    given = randomness.seed_of(graph)
    if given is None:
        given = randomness.chance if seed is None else _SEED_WITHOUT_ANY
    with tf.init_scope():
        key = randomness.key_of(given)

    def counter_in(other: TowerContext) -> np.ndarray:
        there = Scope(tower.vs_name).renamed(scope, Scope(other.vs_name))
        return np.array([0, _hashed(f"{kind} {other.index} {there} {number} {seed}")], np.uint64)

    def draw(shape: Any, dtype: tf.DType = tf.float32) -> tf.Tensor:
        options = {"counter": counter_in(tower), "alg": _PHILOX, "dtype": dtype}
        drawn = tf.raw_ops.StatelessRandomUniformV2(shape=shape, key=key, **options)
        tower.own_constants[drawn.op.inputs[2].op.name] = counter_in
        return drawn

    return draw


def _number(scope: str, num_calls: dict[str, int], kind: str) -> int:
    """Return the number of a call in a scope, and count it unless it is a recomputation."""
    if not is_building_gradient(built_graph()) or not num_calls[scope]:
        num_calls[scope] += 1
    elif num_calls[scope] > 1:
        raise ConfigError(
            f"{kind} is computed again for its gradient, and the variable scope {tf.get_variable_scope().name!r} has "
            f"{num_calls[scope]} of it; give each a name of its own, so that it draws the same numbers again"
        )
    return num_calls[scope]


def _hashed(text: str) -> int:
    """Return a fixed number of 63 bits for a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1
