"""Statistics of several workers: each name once, merged, before anybody reads it."""

import math

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_peers import run_workers
from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks import EarlyStopping
from tpack.callbacks.base import Callback, CallbackFactory
from tpack.callbacks.group import Callbacks
from tpack.callbacks.summary import MergeAllSummaries
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.errors import ConfigError
from tpack.multi_worker.cross_worker import MergeScalars, SlowestWorker

RULES = {"a": "sum", "b": "mean", "c": "max", "d": "min"}


class Report(Callback):
    """Reports a number of each name in every step, and the last one at the end of an epoch."""

    _chief_only = False

    def __init__(self, names, at_steps=True):
        self._names, self._at_steps = names, at_steps

    def _trigger_step(self):
        if self._at_steps:
            self._put(100.0)

    def _trigger_epoch(self):
        self._put(0.0)

    def _put(self, more):
        for name in self._names:
            self.trainer.monitors.put_scalar(name, 10 * self.epoch_num + self.trainer.peers.rank + more)


class Read(Callback):
    """Keeps the history of a statistic as a callback sees it that reads it at the end of an epoch."""

    _chief_only = False
    reads_statistics = True

    def __init__(self, name):
        self._name, self.histories = name, []

    def _trigger_epoch(self):
        self.histories.append(self.trainer.monitors.get_history(self._name))


def train(peers, callbacks, build=None, **training):
    with tf.Graph().as_default():
        trainer = FakeTrainer()
        trainer.peers, trainer.is_chief = peers, peers is None or peers.rank == 0
        if build is not None:
            build(trainer)
        chosen = [cb for cb in callbacks if trainer.is_chief or not cb.chief_only]
        return trainer.train(chosen, **training)


def test_each_rule_gives_all_workers_the_same_number_once():
    def work(peers):
        read = Read("b")
        # Wherever it stands in the list.
        trainer = train(peers, [read, MergeScalars(RULES), Report([*RULES, "own"])])
        return {name: trainer.recorder.values(name) for name in [*RULES, "own"]}, read.histories

    found = run_workers(3, work)
    merged = {"a": [33.0, 63.0], "b": [11.0, 21.0], "c": [12.0, 22.0], "d": [10.0, 20.0]}
    for rank, (values, histories) in enumerate(found):
        own = [float(10 * epoch + rank + more) for epoch in (1, 2) for more in (100, 100, 0)]
        assert values == {**merged, "own": own}
        assert histories == [[11.0], [11.0, 21.0]]


def test_what_some_do_not_report_is_merged_without_them_and_told():
    def work(peers):
        report = Report(["only_some"] if peers.rank != 1 else ["other"], at_steps=False)
        trainer = train(peers, [MergeScalars({"only_some": "mean", "nobody": "max"}), report])
        return trainer.recorder.values("only_some"), trainer.recorder.values("nobody")

    with captured_log() as lines:
        found = run_workers(3, work)
    assert found == [([11.0, 21.0], [])] * 3
    said = [line for line in lines if "'only_some' is merged without worker 1" in line]
    assert len(said) == 1


def test_what_is_not_a_number_makes_the_merged_one_none():
    class Bad(Report):
        def _put(self, more):
            for name in self._names:
                self.trainer.monitors.put_scalar(name, math.nan if self.trainer.peers.rank else 1.0)

    def work(peers):
        return train(peers, [Bad(list(RULES)), MergeScalars(RULES)], epochs=(1, 1)).recorder.scalars

    for scalars in run_workers(2, work):
        assert len(scalars) == 4
        assert all(math.isnan(value) for _, value, _, _ in scalars)


def test_summaries_of_the_graph_are_merged_too():
    def build(trainer):
        rank = tf.constant(float(trainer.peers.rank))
        tf.summary.scalar("tower0/cost", 1.0 + rank)
        tf.summary.scalar("left_alone", 5.0 + rank)
        tf.summary.histogram("many", tf.zeros([3]))

    def work(peers):
        callbacks = [MergeAllSummaries(), MergeScalars({"cost": "mean"})]
        trainer = train(peers, callbacks, build)
        tags = {
            value.tag
            for summary, _ in trainer.recorder.summaries
            if not isinstance(summary, bytes)
            for value in summary.value
        }
        return trainer.recorder.values("cost"), trainer.recorder.values("left_alone"), "many" in tags, len(tags)

    chief, other = run_workers(2, work)
    assert chief == ([1.5, 1.5], [5.0, 5.0], True, 3)
    assert other == ([1.5, 1.5], [6.0, 6.0], False, 2)


def test_callbacks_that_decide_by_a_merged_statistic_decide_the_same():
    class Falling(Report):
        def _put(self, more):
            # Alone, the second worker would never stop.
            value = 5.0 if self.trainer.peers.rank == 0 else -float(self.epoch_num)
            self.trainer.monitors.put_scalar("loss", value)

    def work(peers):
        stopper = EarlyStopping("loss", patience=1).set_chief_only(False)
        trainer = None
        try:
            trainer = train(
                peers, [Falling(["loss"], at_steps=False), MergeScalars({"loss": "max"}), stopper], epochs=(1, 9)
            )
        except Exception as error:
            return type(error).__name__
        return trainer.epoch_num

    first, second = run_workers(2, work)
    assert first == second == "StopTraining"


@pytest.mark.parametrize(
    "wrap", [lambda cb: cb, lambda cb: PeriodicTrigger(cb, every_k_epochs=1)], ids=["bare", "wrapped"]
)
def test_it_is_triggered_between_those_that_report_and_those_that_read(wrap):
    order = []
    read = CallbackFactory(trigger=lambda _: order.append("read")).set_chief_only(False)
    read.reads_statistics = True
    report = CallbackFactory(trigger=lambda _: order.append("report")).set_chief_only(False)
    merge = MergeScalars({"x": "sum"})
    merge._trigger = lambda: order.append("merge")
    for cb in Callbacks([read, merge, report])._triggered:
        cb.trigger()
    assert order == ["report", "merge", "read"]
    assert [cb.merges_statistics for cb in Callbacks([read, wrap(merge), report])._triggered] == [False, True, False]


def test_alone_nothing_is_merged_or_measured():
    class One:
        rank, size = 0, 1

    for peers in (None, One()):
        merge, slowest = MergeScalars({"a": "sum"}), SlowestWorker()
        report = CallbackFactory(trigger=lambda cb: cb.trainer.monitors.put_scalar("a", 3.0))
        trainer = train(peers, [report, merge, slowest])
        assert trainer.recorder.scalars == [("a", 3.0, 1, 2), ("a", 3.0, 2, 4)]
        assert not merge.implements("before_run")
        assert not slowest.implements("before_run")


@pytest.mark.parametrize(
    ("how", "message"),
    [({}, "at least one name"), ({"a": "median"}, "how\\['a'\\]"), ({"a": 3}, "how"), (["a"], "how")],
)
def test_rules_that_are_not_known_are_refused(how, message):
    with pytest.raises(ConfigError, match=message):
        MergeScalars(how)
    with pytest.raises(ConfigError, match="log_from"):
        SlowestWorker(log_from=0.5)


class Known(SlowestWorker):
    """Measures times that are known in advance, in place of the clock."""

    def _before_epoch(self):
        super()._before_epoch()
        self._secs = self

    def value(self):
        return 2 * self.epoch_num * [0.1, 0.1, 0.14][self._peers.rank]

    def _trigger(self):
        self._secs_before = 2 * (self.epoch_num - 1) * [0.1, 0.1, 0.14][self._peers.rank]
        super()._trigger()


def with_costs(trainer):
    trainer.costs = [tf.identity(trainer.weight.read_value() * 2.0)]


def test_the_slowest_worker_is_named():
    def work(peers):
        trainer = train(peers, [Known()], with_costs, epochs=(1, 1))
        return {name: value for name, value, _, _ in trainer.recorder.scalars}

    with captured_log() as lines:
        found = run_workers(3, work)
    assert found[0] == found[1] == found[2]
    assert found[0]["step_secs/slowest_rank"] == 2
    assert found[0]["step_secs/slowest"] == pytest.approx(0.14)
    assert found[0]["step_secs/median"] == pytest.approx(0.1)
    said = [line for line in lines if "is slowest" in line]
    assert said == ["Worker 2 is slowest: 1.4 of the median, 0.14 s a step until it knows its cost."]


def test_time_is_measured_from_the_beginning_of_a_step_to_its_cost():
    def slow_in_one(trainer):
        def work():
            total = 0.0
            for k in range(300000 if trainer.peers.rank == 1 else 1):
                total += k
            return total

        trainer.costs = [tf.py_func(work, [], tf.float64)]

    def run(peers):
        return {name: value for name, value, _, _ in train(peers, [SlowestWorker()], slow_in_one).recorder.scalars}

    for found in run_workers(2, run):
        assert found["step_secs/slowest_rank"] == 1
        assert found["step_secs/slowest"] > found["step_secs/median"] > 0


def test_a_trainer_that_does_not_tell_its_costs_is_not_measured():
    with captured_log() as lines:
        run_workers(2, lambda peers: train(peers, [SlowestWorker()]))
    assert any("SlowestWorker measures nothing: FakeTrainer has no costs" in line for line in lines)
