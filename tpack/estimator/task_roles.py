"""Tasks of a cluster that do not train: parameter servers serve, and the evaluator evaluates.

The evaluator has no connection to the others. It reads files in the model's directory: checkpoints, and a note that the
chief leaves when training is over, since its end may come before the step to end at.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tpack.errors import CheckpointError, ClusterError
from tpack.estimator.run_config import ClusterPlace, RunConfig
from tpack.multi_worker.cluster.peers import connect_peers
from tpack.multi_worker.servers import start_server
from tpack.utils import logger
from tpack.utils.launch_env import launch_token

NOTE_NAME = "training_ended.json"
_POLL_SECS = 0.5


def serve_variables(config: RunConfig) -> None:
    """Keep variables for the workers, as a parameter server, until all of them have ended.

    Args:
        config: has the place of this process.

    Raises:
        ClusterError: The port is in use, or workers are missing.
        PeerLostError: A worker, or another parameter server, was lost.
    """
    member = config.member()
    start_server(member, config=config.session_config)
    with connect_peers(member, timeout_secs=config.session_creation_timeout_secs) as peers:
        peers.serve_until_end()
    logger.info("All workers have ended, and so does this parameter server.")


class EndNote:
    """The chief's note that training is over, with the identity of the training.

    Args:
        directory: that of the model.
        place: the place of any process of the cluster.
        environment: its variables.
    """

    def __init__(self, directory: str, place: ClusterPlace, environment: Mapping[str, str]) -> None:
        self._path = os.path.join(directory, NOTE_NAME)
        task = place.task
        trains = {
            job: list(addresses) for job, addresses in (task.cluster if task else {}).items() if job != "evaluator"
        }
        told = json.dumps([launch_token(environment), trains], sort_keys=True)
        self._training = hashlib.sha256(told.encode()).hexdigest()

    @contextmanager
    def written_after(self) -> Iterator[None]:
        """Write the note after a block that trains; that of an earlier training is removed before."""
        with suppress(FileNotFoundError):
            os.remove(self._path)
        try:
            yield
        except BaseException as error:
            self._write(f"{type(error).__name__}: {error}")
            raise
        self._write("")

    def read(self) -> str | None:
        """Return the error that ended training, "" without one; None while it goes on."""
        try:
            with open(self._path, encoding="utf-8") as file:
                told = json.load(file)
        except FileNotFoundError:
            return None
        return str(told["failure"]) if told["training"] == self._training else None

    def _write(self, failure: str) -> None:
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        # Nobody is to read half of it.
        with open(f"{self._path}.new", "w", encoding="utf-8") as file:
            json.dump({"training": self._training, "failure": failure}, file)
        os.replace(f"{self._path}.new", self._path)


@dataclass(frozen=True)
class Pace:
    """Timing of an evaluator, in seconds.

    Attributes:
        start_delay_secs: before it looks for the first checkpoint, unless training ends earlier.
        throttle_secs: the minimum between the beginnings of two evaluations; not before the last.
        timeout_secs: for a new checkpoint.
    """

    start_delay_secs: float
    throttle_secs: float
    timeout_secs: float


def evaluate_until_end(
    evaluate: Callable[[str, bool], int],
    newest: Callable[[], str | None],
    note: EndNote,
    pace: Pace,
    *,
    last_step: int | None,
) -> None:
    """Evaluate the newest checkpoint again and again, until training is over.

    Args:
        evaluate: evaluates a checkpoint, given whether training is over; returns its step.
        newest: returns the newest checkpoint, or None.
        note: the chief's.
        pace: the timing.
        last_step: the step at which training ends; None for the end of the data.

    Raises:
        ClusterError: Training failed, or no new checkpoint appeared in time.
        CheckpointError: A checkpoint does not load.
    """
    begun = time.monotonic()
    next_time, deadline = begun + pace.start_delay_secs, begun + pace.start_delay_secs + pace.timeout_secs
    done: str | None = None
    while True:
        # Read first: what is newest after the end is the last one.
        end = note.read()
        found = newest() if end is not None or time.monotonic() >= next_time else None
        if found is not None and found != done:
            next_time = time.monotonic() + pace.throttle_secs
            step = _evaluated(evaluate, newest, found, is_over=end is not None)
            if step is None:
                continue
            done, deadline = found, max(next_time, time.monotonic()) + pace.timeout_secs
            if last_step is not None and step >= last_step:
                return
        elif end is not None:
            _check_end(end, done)
            return
        elif time.monotonic() > deadline:
            raise ClusterError(
                f"the evaluator has seen no new checkpoint for {pace.timeout_secs:g} s, and training has not ended; "
                f"the last one was {done}"
            )
        else:
            time.sleep(_POLL_SECS)


def _evaluated(
    evaluate: Callable[[str, bool], int], newest: Callable[[], str | None], found: str, *, is_over: bool
) -> int | None:
    """Evaluate a checkpoint and return its step; None if a newer one has replaced it meanwhile."""
    try:
        return evaluate(found, is_over)
    except CheckpointError:
        if newest() == found:
            raise
        logger.info(f"{found} was removed before it was evaluated: there are newer ones.")
        return None


def _check_end(failure: str, done: Any) -> None:
    if failure:
        raise ClusterError(f"training failed, says the chief: {failure}")
    if done is None:
        raise ClusterError("training has ended, and it has left no checkpoint to evaluate")
