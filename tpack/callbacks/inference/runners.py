"""Evaluate the model on other data during training, on one device or several.

In each round of a pass every tower takes one batch, in the last one only as many towers as there are batches left. So
each batch is evaluated exactly once, and inferencers get one batch at a time. Several workers evaluate a share each and
merge the inferencers' states; where that is impossible, the chief evaluates everything for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from tqdm import tqdm

from tpack.callbacks.base import LONG_WAIT_SECS, Callback
from tpack.callbacks.group import Callbacks
from tpack.callbacks.hooks import HookToCallback
from tpack.callbacks.inference.inferencers import Inferencer, ScalarStats
from tpack.dataflow.base import DataFlow, length_or_none
from tpack.dataflow.shard import ShardData, shards_in
from tpack.errors import CallbackError, ClusterError, ConfigError, DataExhaustedError, StopTraining, WrongTypeError
from tpack.graph_builder.predict import build_predict_tower
from tpack.input_source.base import InputSource
from tpack.input_source.data_adapter import GivenData
from tpack.input_source.feed import FeedInput
from tpack.input_source.proxy import ProxyInput
from tpack.input_source.queue_input import QueueInput
from tpack.step.hooked_session import HookedSession
from tpack.tfutils.dependency import ancestors
from tpack.tower.collections import SUMMARY_KEYS, freeze_collection
from tpack.tower.devices import resolve_devices
from tpack.tower.tower_func import TowerFunc, TowerHandle
from tpack.types import Peers
from tpack.utils import logger
from tpack.utils.progress import get_tqdm
from tpack.utils.validation import check_arguments, check_count, check_instances, owner_name


@check_arguments
class InferenceRunnerBase(Callback):
    """The base of callbacks that run inferencers over all data when triggered; subclasses build the towers.

    Each pass restarts the data. Before the first step each tower tries `TrainConfig(sanity_steps=2)` batches, of which
    the inferencers' `_after_inference` is not called; data that cannot restart are not tried. The input source's hooks
    (feeds, staging) run around inference runs only, and an error on one of its threads ends the training. With several
    workers, each evaluates every W-th batch of a dataflow, or the share of a `ShardData` in it. The chief evaluates
    everything, as the log tells, if an inferencer cannot merge (see `Inferencer`) or the input is not a `DataFlow`,
    `FeedInput` or `QueueInput`. All workers get the statistics of one process.

    Args:
        input: an input source of known size.
        infs: one `Inferencer` or several.

    Raises:
        WrongTypeError: an argument has the wrong type.
        ConfigError: the size of the input is unknown or 0, or there is no inferencer. In `setup_graph`: a `ShardData`
            would repeat or leave out points, or belongs to another worker.
        ClusterError: in `setup_graph`: another worker has other inferencers, or data of another length.
        CallbackError: in `before_train`: a batch cannot be evaluated.
    """

    _chief_only = False
    _given_tower_func: TowerFunc | None = None

    def __init__(self, input: InputSource, infs: Inferencer | Sequence[Inferencer]) -> None:
        self._infs = (
            [infs] if isinstance(infs, Inferencer) else check_instances(self, "infs", infs, Inferencer, least=1)
        )
        self._input = input
        self._size = _known_size(self, input)
        self._limit: float = 1.0
        self._hooks: list[Callback] = []
        self._input_callbacks = Callbacks([])
        self._fetches: list[list[list[tf.Tensor]]] = []
        self._session: HookedSession
        # The workers that evaluate together, and whether each does its share or the chief all of it.
        self._peers: Peers | None = None
        self._is_split = False

    def register_hook(self, hook: tf.train.SessionRunHook) -> None:
        """Add a `tf.train.SessionRunHook` around inference runs; before `setup_graph` only.

        Raises:
            CallbackError: it is too late, or ``hook`` is not a session hook.
        """
        if self._trainer is not None:
            raise CallbackError(f"{self} was set up already: expected hooks before training")
        self._hooks.append(HookToCallback(hook))

    def limit_batches(self, limit: float) -> int:
        """Evaluate the first batches only, and return their number; before `setup_graph`.

        Args:
            limit: the number in each evaluating worker; a float is a fraction of all.
        """
        self._limit = limit
        self._size = limited(self._input.size(), limit)
        return self._size

    def _build_towers(self) -> list[TowerHandle]:
        """Build the towers, each on its own inputs, without other operations."""
        raise NotImplementedError(f"{type(self).__name__} must override _build_towers")

    @property
    def _tower_func(self) -> TowerFunc:
        # Only a trainer whose model is a tower function has one.
        tower_func = self._given_tower_func or getattr(self.trainer, "tower_func", None)
        if tower_func is None:
            trainer = type(self.trainer).__name__
            raise CallbackError(f"{self} got tower_func=None and a {trainer} without one: expected a tower function")
        return tower_func

    def _setup_graph(self) -> None:
        size, samples = self._input.samples() if self._size == self._input.size() else (None, None)
        uneven = None
        if size is not None and samples is not None:
            last = samples - size * (self._size - 1)
            uneven = (size, last) if 0 < last < size else None
        self._take_share()
        callbacks = self._input.setup(self._tower_func.input_signature)
        # An unused input must not begin to read.
        self._input_callbacks = Callbacks(callbacks if self._size else [])
        towers = self._build_towers()
        self._fetches = [[inf.get_tensors(tower) for inf in self._infs] for tower in towers]
        self._check_fetches(towers)
        if uneven is not None:
            self._warn_of_means(*uneven)
        # The input's summaries belong to inference; training would average them with every step.
        with freeze_collection(SUMMARY_KEYS):
            self._input_callbacks.setup_graph(self.trainer)
        for callback in (*self._hooks, *self._infs):
            callback.setup_graph(self.trainer)

    def _take_share(self) -> None:
        peers = self.trainer.peers
        if peers is None or peers.size == 1:
            return
        self._peers = peers
        unmerged = [str(inf) for inf in self._infs if not inf.can_merge]
        self._check_equal_in(peers, flow=None if unmerged else getattr(self._input, "ds", None))
        reason = f"{unmerged[0]} does not say how to merge" if unmerged else _split(self._input, peers)
        self._is_split = reason is None
        if self._is_split:
            self._size = limited(self._input.size(), self._limit)
        elif peers.rank > 0:
            self._size = 0
        else:
            logger.info(f"{self} runs in the chief alone, over all data: {reason}.")

    def _check_equal_in(self, peers: Peers, flow: DataFlow | None) -> None:
        """Raise an error in all workers if one has other inferencers, which are merged in order, or other data."""
        lengths = [] if flow is None else [length_or_none(shard.ds) for shard in shards_in(flow)] or [self._size]
        own = [f"{inf} of {', '.join(inf.get_fetches())}" for inf in self._infs] + [f"data of {n}" for n in lengths]
        of_all = peers.gather(f"the inferencers and data of {self}", own)
        for rank, other in enumerate(of_all):
            if other != of_all[0]:
                raise ClusterError(
                    f"{self} got [{'; '.join(other)}] in worker {rank}, and [{'; '.join(of_all[0])}] in worker 0: "
                    "expected the same inferencers in the same order, and data of the same length"
                )

    @property
    def _members(self) -> list[Callback]:
        return [self._input_callbacks, *self._hooks, *self._infs]

    def _check_fetches(self, towers: list[TowerHandle]) -> None:
        """Refuse tensors of other towers that would take the data of training."""
        needed = {inf: ancestors(tensors) for inf, tensors in zip(self._infs, self._fetches[0], strict=True)}
        for other in self._tower_func.towers:
            if any(other is tower for tower in towers):
                continue
            inputs = {tensor.op for tensor in other.inputs}
            for inf, ops in needed.items():
                if inputs & ops:
                    raise CallbackError(
                        f"{inf} got {inf.get_fetches()}, of which one takes the data of {other}: expected tensors that "
                        "the model also builds for prediction"
                    )

    def _warn_of_means(self, size: int, last: int) -> None:
        """Warn of scalars in which a smaller last batch counts as much as the others."""
        pairs = zip(self._infs, self._fetches[0], strict=True)
        means = [tensor for inf, tensors in pairs if type(inf) is ScalarStats for tensor in tensors]
        if names := [tensor.op.name.rpartition("/")[2] for tensor in means if tensor.shape.rank == 0]:
            logger.warning(
                f"{self} averages {', '.join(names)} over batches, since each has one number, and the last batch has "
                f"{last} example(s), the others {size}: it counts as much as they do. A tensor with a value for each "
                "example, or batches of one size, make the mean exact"
            )

    def _before_train(self) -> None:
        for callback in self._members:
            callback.before_train()
        self._session = HookedSession(self.trainer.sess, [*self._input_callbacks, *self._hooks])
        num_batches = min(self._size, self.trainer.sanity_steps * len(self._fetches))
        if num_batches and _restarts(self._input):
            self._try(num_batches)

    def _try(self, num_batches: int) -> None:
        """Evaluate a few batches and discard the results; raise an error that names the callback."""
        logger.debug(f"{self} tries {num_batches} batch(es) before the first step.")
        try:
            for inf in self._infs:
                inf.before_inference()
            self._run_all(num_batches, hides_progress=True)
        except StopTraining:
            raise
        except Exception as error:
            raise CallbackError(
                f"{self} cannot evaluate the first {num_batches} batch(es), which it tries before the first step: "
                f"{type(error).__name__}: {error}; use TrainConfig(sanity_steps=0) to train without the try"
            ) from error

    def _trigger(self) -> None:
        for inf in self._infs:
            inf.before_inference()
        if self._size:
            self._run_all(self._size)
        if self._peers is not None and not self._is_split:
            self._report_in_all(self._peers)
            return
        if self._peers is not None:
            own = [inf.state() for inf in self._infs]
            by_worker = self._peers.gather(f"evaluation by {self}", own, timeout_secs=LONG_WAIT_SECS)
            for inf, states in zip(self._infs, zip(*by_worker, strict=True), strict=True):
                inf.merge(states)
        for inf in self._infs:
            inf.after_inference()

    def _report_in_all(self, peers: Peers) -> None:
        """Report the chief's statistics in all workers, for equal decisions."""
        found = [dict(inf.after_inference()) for inf in self._infs] if peers.rank == 0 else []
        values = [{name: float(value) for name, value in statistics.items()} for statistics in found]
        values = peers.gather(f"evaluation by {self} in the chief", values, timeout_secs=LONG_WAIT_SECS)[0]
        if peers.rank > 0:
            for inf, statistics in zip(self._infs, values, strict=True):
                inf.report(statistics)

    def _run_all(self, num_batches: int, *, hides_progress: bool = False) -> None:
        self._input.reset_state()
        with get_tqdm(total=num_batches, desc=str(self), disable=hides_progress) as bar:
            num_rounds, rest = divmod(num_batches, len(self._fetches))
            for _ in range(num_rounds):
                self._run_round(self._fetches, bar)
            if rest:
                self._run_round(self._fetches[:rest], bar)

    def _run_round(self, fetches: list[list[list[tf.Tensor]]], bar: tqdm) -> None:
        try:
            by_tower = self._session.run(fetches)
        except DataExhaustedError as error:
            raise DataExhaustedError(
                f"the data of {self} ended after {bar.n} batches, and their size was given as {self._size}"
            ) from error
        for results in by_tower:
            for inf, values in zip(self._infs, results, strict=True):
                inf.on_fetches(values)
        bar.update(len(fetches))

    def _after_train(self) -> None:
        Callbacks(self._members).after_train()

    def failure(self) -> BaseException | None:
        """Return the input source's failure."""
        return self._input_callbacks.failure()

    def let_go(self) -> None:
        """Unblock a run that waits for data."""
        self._input_callbacks.let_go()


@check_arguments
class InferenceRunner(InferenceRunnerBase):
    """Run inferencers over all data on one device, with the present variables of the main training tower.

    Args:
        input: an `InputSource`, or a `DataFlow`, which is fed, or arrays such as ``(x, y)`` and other data of
            `TrainConfig`'s ``dataflow``, in their own order. The size must be known.
        infs: one `Inferencer` or several.
        tower_name: name scope of the tower; ``InferenceTower`` unless given, with a number for further runners.
        tower_func: the model; the trainer's unless given.
        device: a GPU's number or the name of a device.
        batch_size: the examples in a batch, of which the last may be smaller; None for an input of batches.

    Creates:
        One prediction tower.

    Raises:
        WrongTypeError: an argument has the wrong type.
        ConfigError: the size of the input is unknown or 0, there is no inferencer, or ``batch_size`` does not fit the
            input.
    """

    def __init__(
        self,
        input: Any,
        infs: Inferencer | Sequence[Inferencer],
        tower_name: str | None = None,
        tower_func: TowerFunc | None = None,
        device: int | str = 0,
        *,
        batch_size: int | None = None,
    ) -> None:
        input = _batches_of(self, input, batch_size)
        super().__init__(FeedInput(input, infinite=False) if isinstance(input, DataFlow) else input, infs)
        self._tower_name = tower_name
        self._given_tower_func = tower_func
        self._device = device

    def _build_towers(self) -> list[TowerHandle]:
        (name,) = _tower_names(self._tower_func, self._tower_name, [""])
        return [build_predict_tower(self._tower_func, self._input.get_input_tensors, name=name, device=self._device)]


@check_arguments
class DataParallelInferenceRunner(InferenceRunnerBase):
    """Run inferencers over all data on several devices, each of which takes every K-th batch.

    The statistics are those of one device: every batch is evaluated exactly once and in order, for any number of
    batches.

    Args:
        input: an `InputSource` with a batch for each tower, or a `DataFlow`, which goes through a queue; or other data
            of `InferenceRunner`. The size must be known.
        infs: one `Inferencer` or several.
        gpus: number of devices, or the numbers of GPUs.
        tower_name: prefix of the towers' name scopes; ``InferenceTower`` unless given, with a number for further
            runners.
        tower_func: the model; the trainer's unless given.
        batch_size: the examples in a tower's batch, as for `InferenceRunner`.

    Creates:
        K prediction towers.

    Raises:
        WrongTypeError: an argument has the wrong type.
        ConfigError: as for `InferenceRunner`, or ``gpus`` is invalid, or several devices share a `FeedInput`.
        DeviceError: there is no such GPU.
    """

    def __init__(
        self,
        input: Any,
        infs: Inferencer | Sequence[Inferencer],
        gpus: int | Sequence[int],
        tower_name: str | None = None,
        tower_func: TowerFunc | None = None,
        *,
        batch_size: int | None = None,
    ) -> None:
        self._devices = resolve_devices(gpus)
        input = _batches_of(self, input, batch_size)
        if isinstance(input, FeedInput) and len(self._devices) > 1:
            raise ConfigError(f"{owner_name(self)} got a FeedInput for several devices: expected its DataFlow")
        super().__init__(QueueInput(input) if isinstance(input, DataFlow) else input, infs)
        self._tower_name = tower_name
        self._given_tower_func = tower_func

    def _build_towers(self) -> list[TowerHandle]:
        names = _tower_names(self._tower_func, self._tower_name, map(str, range(len(self._devices))))
        return [
            build_predict_tower(self._tower_func, self._input.get_input_tensors, name=name, device=device)
            for name, device in zip(names, self._devices, strict=True)
        ]


def _batches_of(owner: object, input: Any, batch_size: int | None) -> InputSource | DataFlow:
    """Return a source of the input's batches, each once and in order."""
    if batch_size is not None:
        check_count(owner, "batch_size", batch_size)
    if isinstance(input, InputSource) and batch_size is not None:
        raise ConfigError(f"{owner_name(owner)} got batch_size={batch_size} and a {type(input).__name__}: expected one")
    if isinstance(input, InputSource) or (isinstance(input, DataFlow) and batch_size is None):
        return input
    try:
        given = GivenData(input, batch_size, is_once=True)
    except WrongTypeError as error:
        raise WrongTypeError(f"{owner_name(owner)} cannot take its input: {error}") from error
    return given.source if given.flow is None else given.flow


def limited(count: int, limit: float) -> int:
    """Return the part of a count that a limit allows.

    Args:
        count: the count.
        limit: an integer is the maximum, a float a fraction, of which at least one is left.
    """
    if isinstance(limit, (int, np.integer)):
        return min(count, int(limit))
    return max(min(count, 1), int(count * limit))


def _tower_names(tower_func: TowerFunc, given: str | None, ends: Iterable[str]) -> list[str]:
    """Return the names of a runner's towers: the given ones, or unused ones."""
    ends = list(ends)
    taken = {tower.name for tower in tower_func.towers}
    bases = [given] if given else ["InferenceTower", *(f"InferenceTower_{k}" for k in range(1, len(taken) + 1))]
    choices = [[base + end for end in ends] for base in bases]
    return next((names for names in choices if not taken.intersection(names)), choices[0])


def _split(source: InputSource, peers: Peers) -> str | None:
    """Make a source give one worker's share of its data; return the reason if it cannot, and refuse wrong shares."""
    # Subclasses may do anything with their data.
    if type(source) not in (FeedInput, QueueInput):
        return f"{type(source).__name__} cannot be split"
    flow: DataFlow = source.ds  # type: ignore[attr-defined]
    shards = shards_in(flow)
    for shard in shards:
        shard.be_of(peers.rank, peers.size)
        length = length_or_none(shard.ds)
        if shard.remainder != "keep" and (length is None or length % peers.size):
            raise ConfigError(
                f"ShardData(remainder={shard.remainder!r}) gives {peers.size} workers some of {length} data points "
                "twice or not at all: expected remainder='keep' in an evaluation"
            )
    if not shards:
        source.ds = ShardData(flow, peers.rank, peers.size, remainder="keep")  # type: ignore[attr-defined]
    return None


def _restarts(source: InputSource) -> bool:
    """Tell whether a source begins again after some batches; a pass over others would begin with a later one."""
    while isinstance(source, ProxyInput):
        source = source.input
    return type(source)._reset_state is not InputSource._reset_state


def _known_size(runner: InferenceRunnerBase, source: InputSource) -> int:
    try:
        size = source.size()
    except NotImplementedError as error:
        raise ConfigError(f"{runner} got {source} of unknown size: expected an input with a size") from error
    if size < 1:
        raise ConfigError(f"{runner} got an input of size {size}: expected at least one batch")
    return size
