import io
import json
import os

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks import progress
from tpack.callbacks.base import Callback
from tpack.callbacks.progress import ProgressBar
from tpack.utils.progress import LINE_VARIABLE, line_of, open_launcher_line


class FakeTime:
    now = 0.0

    def perf_counter(self):
        return self.now


class Tick(Callback):
    """Lets half a second pass with each step."""

    def __init__(self, clock):
        self.clock = clock

    def _before_run(self, ctx):
        self.clock.now += 0.5


@pytest.fixture
def bars(monkeypatch):
    """The text of every bar, on a clock where the bar is due once a second."""
    texts = []
    real = progress.get_tqdm

    def make(**kwargs):
        texts.append(io.StringIO())
        return real(file=texts[-1], ncols=100, **kwargs)

    monkeypatch.setattr(progress, "get_tqdm", make)
    monkeypatch.setenv("TPACK_PROGRESS_REFRESH", "1")
    return texts


@pytest.fixture
def clock(monkeypatch):
    fake = FakeTime()
    monkeypatch.setattr(progress, "time", fake)
    return fake


def drawings(text):
    """Return the different counts that a bar showed, such as '2/5'."""
    counts = [part.split("|")[2].split("[")[0].strip() for part in text.getvalue().split("\r") if part.count("|") >= 2]
    return list(dict.fromkeys(counts))


def test_each_epoch_has_a_bar_that_is_drawn_when_due(graph, bars, clock):
    FakeTrainer().train([Tick(clock), ProgressBar()], steps_per_epoch=5, epochs=(1, 2))
    assert [drawings(bar) for bar in bars] == [["0/5", "2/5", "4/5", "5/5"]] * 2


def test_nothing_is_drawn_before_it_is_due(graph, bars, clock):
    FakeTrainer().train([ProgressBar()], steps_per_epoch=5, epochs=(1, 1))
    assert drawings(bars[0]) == ["0/5", "5/5"]


def test_values_are_fetched_only_when_they_are_shown(graph, bars, clock):
    class Counting(ProgressBar):
        fetched = 0

        def _after_run(self, ctx, values):
            self.fetched += values.results is not None
            super()._after_run(ctx, values)

    tf.constant(0.125, name="scope/cost")
    tf.constant([1.0, 2.0], name="pair")
    bar = Counting(["scope/cost", "pair:0"])
    FakeTrainer().train([Tick(clock), bar], steps_per_epoch=5, epochs=(1, 1))
    assert bar.fetched == 3
    assert "cost=0.125, pair=[1. 2.]" in bars[0].getvalue()
    assert drawings(bars[0]) == ["0/5", "2/5", "4/5", "5/5"]


def test_bar_without_names_takes_no_part_in_runs():
    assert not ProgressBar().implements("before_run")
    assert not ProgressBar().implements("after_run")
    assert ProgressBar(["x"]).implements("after_run")


def test_bar_is_closed_when_an_epoch_breaks_off(graph, bars, clock):
    class Break(Callback):
        def _trigger_step(self):
            raise OSError("stop here")

    bar = ProgressBar()
    with pytest.raises(OSError, match="stop here"):
        FakeTrainer().train([bar, Break()])
    assert bar._bar is None


def test_a_launcher_is_told_of_steps_and_cost_and_gets_the_bar(graph, clock, monkeypatch):
    class Costly(FakeTrainer):
        costs = (tf.constant(0.125), tf.constant(9.0))

    read_end, write_end = open_launcher_line()
    monkeypatch.setenv(LINE_VARIABLE, line_of(write_end, shows_bar=True)[LINE_VARIABLE])
    bar = ProgressBar()
    Costly().train([Tick(clock), bar], steps_per_epoch=3, epochs=(1, 2))
    told = [json.loads(text) for text in os.read(read_end, 1 << 16).splitlines()]
    for end in (read_end, write_end):
        os.close(end)
    progress = [each["progress"] for each in told if "progress" in each]
    steps = [(each["epoch"], each["step"]) for each in progress]
    assert list(dict.fromkeys(steps)) == [(epoch, step) for epoch in (1, 2) for step in range(4)]
    assert progress[-1] == {
        "epoch": 2,
        "epochs": 2,
        "step": 3,
        "steps": 3,
        "secs": 1.5,
        "speed": 2.0,
        "values": {"cost": "0.125"},
    }
    # The bar itself is drawn as in a file: at the beginning and the end of an epoch, and once a minute.
    assert [each["bar"].split("|")[2].split("[")[0].strip() for each in told if "bar" in each] == ["0/3", "3/3"] * 2


class Known(FakeTrainer):
    """Knows two statistics of each step."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.statistics = {"cost": tf.constant(0.125), "accuracy": tf.constant(0.5)}


@pytest.mark.parametrize("is_compiled", [False, True])
def test_what_the_trainer_knows_of_a_step_is_shown(graph, bars, clock, is_compiled):
    class Counting(ProgressBar):
        fetched = 0

        def _after_run(self, ctx, values):
            self.fetched += values.results is not None
            super()._after_run(ctx, values)

    trainer, bar = Known(), Counting()
    trainer.is_compiled = is_compiled
    trainer.train([Tick(clock), bar], steps_per_epoch=5, epochs=(1, 1))
    assert bar.fetched == (5 if is_compiled else 3)
    assert drawings(bars[0]) == ["0/5", "2/5", "4/5", "5/5"]
    assert "cost=0.125, accuracy=0.5" in bars[0].getvalue()


def test_a_bar_that_is_told_to_shows_nothing(graph, bars, clock):
    Known().train([Tick(clock), ProgressBar(())], steps_per_epoch=5, epochs=(1, 1))
    assert "cost" not in bars[0].getvalue()


def test_steps_that_have_no_values_are_shown_all_the_same(graph, bars, clock):
    class Silent(ProgressBar):
        def _before_run(self, ctx):
            return None

    Known().train([Tick(clock), Silent()], steps_per_epoch=6, epochs=(1, 1))
    assert drawings(bars[0]) == ["0/6", "3/6", "6/6"]


def test_names_are_told_in_place_of_the_cost(graph, clock, monkeypatch):
    read_end, write_end = open_launcher_line()
    monkeypatch.setenv(LINE_VARIABLE, line_of(write_end, shows_bar=True)[LINE_VARIABLE])
    tf.constant(0.5, name="accuracy")
    FakeTrainer().train([Tick(clock), ProgressBar(["accuracy"])], steps_per_epoch=2, epochs=(1, 1))
    told = [json.loads(text) for text in os.read(read_end, 1 << 16).splitlines()]
    for end in (read_end, write_end):
        os.close(end)
    assert [each["progress"]["values"] for each in told if "progress" in each][-1] == {"accuracy": "0.5"}
