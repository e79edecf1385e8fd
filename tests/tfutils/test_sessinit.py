"""The two phases of a SessionInit, and that a chain checks everything before it changes anything."""

from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import CheckpointError, ConfigError
from tpack.tfutils.sessinit import ChainInit, JustCurrentSession, SessionInit


class Recorded(SessionInit):
    def __init__(self, events: list[Any], name: str, error: Exception | None = None) -> None:
        self.events, self.name, self.error = events, name, error

    def _setup_graph(self) -> None:
        if self.error:
            raise self.error
        self.events.append(("setup", self.name, tf.get_default_graph()))

    def _run_init(self, sess: Any) -> None:
        self.events.append(("run", self.name, sess))


def test_init_sets_up_inside_the_sessions_graph_then_runs() -> None:
    events: list[Any] = []
    with tf.Session(graph=tf.Graph()) as session, tf.Graph().as_default():
        Recorded(events, "a").init(session)
    assert events == [("setup", "a", session.graph), ("run", "a", session)]


def test_chain_sets_up_all_before_it_runs_any() -> None:
    events: list[Any] = []
    with tf.Session(graph=tf.Graph()) as session:
        ChainInit([Recorded(events, "a"), JustCurrentSession(), Recorded(events, "b")]).init(session)
    assert [event[:2] for event in events] == [("setup", "a"), ("setup", "b"), ("run", "a"), ("run", "b")]


def test_chain_with_a_failing_member_changes_nothing() -> None:
    events: list[Any] = []
    chain = ChainInit([Recorded(events, "a"), Recorded(events, "b", CheckpointError("damaged"))])
    with tf.Session(graph=tf.Graph()) as session, pytest.raises(CheckpointError, match="damaged"):
        chain.init(session)
    assert [event[0] for event in events] == ["setup"]


def test_chain_rejects_other_members() -> None:
    with pytest.raises(ConfigError, match="ChainInit got sess_inits.0.='model.npz': expected a SessionInit"):
        ChainInit(["model.npz"])  # type: ignore[list-item]
