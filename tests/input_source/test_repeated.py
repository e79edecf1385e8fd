import numpy as np
import pytest

from tests.helpers.run_input import SIGNATURE, running
from tests.input_source.test_contract import OTHERS, STREAMS, dataset, point, points
from tpack.dataflow import DataFromGenerator
from tpack.errors import ConfigError, InputError, WrongTypeError
from tpack.input_source import FeedInput, PlaceholderInput, QueueInput, TFDatasetInput, remap_input_source
from tpack.input_source.repeated import RepeatedBatches

REPEATABLE = {**STREAMS, **OTHERS}
del REPEATABLE["placeholder"], REPEATABLE["remapped queue"], REPEATABLE["constant"]


def labels(run, num_steps):
    """Run steps, counting them as a trainer does."""
    found = []
    for _ in range(num_steps):
        found += [int(values[1]) for values in run.step()]
        run.trainer.sess.run(run.trainer._increment)
    return found


@pytest.mark.parametrize(("num_steps", "num_towers"), [(1, 1), (3, 1), (2, 2), (1, 3)])
@pytest.mark.parametrize("name", REPEATABLE)
def test_data_of_the_first_steps_come_again_and_again(graph, name, num_steps, num_towers):
    source = RepeatedBatches(REPEATABLE[name](), num_steps, num_towers)
    with running(source, num_towers=num_towers) as run:
        found = labels(run, 3 * num_steps)
        image, label = run.step()[0]
    assert found == list(range(num_steps * num_towers)) * 3
    np.testing.assert_array_equal(image, point(label)[0])
    assert source.size() == num_steps * num_towers
    assert source.data_state() is None


def test_shapes_are_known_as_far_as_the_source_knows_them(graph):
    source = RepeatedBatches(QueueInput(points()), 2)
    source.setup(SIGNATURE)
    image, label = source.get_input_tensors()
    assert (image.shape.as_list(), label.shape.as_list()) == ([None, 2], [])


def test_run_that_goes_on_uses_the_data_of_its_step(graph):
    with running(RepeatedBatches(QueueInput(points()), 3)) as run:
        run.trainer.global_step_var.load(7, run.trainer.sess)
        assert labels(run, 4) == [1, 2, 0, 1]


def test_source_that_ends_too_early_is_an_error(graph):
    source = RepeatedBatches(TFDatasetInput(lambda: dataset().take(2)), 3)
    with pytest.raises(InputError, match="TFDatasetInput did not give 3 batches to repeat: "), running(source):
        pass


def test_failure_of_the_data_is_told(graph):
    class Broken(Exception):
        pass

    def broken():
        yield point(0)
        raise Broken("this one cannot be read")

    source = RepeatedBatches(QueueInput(DataFromGenerator(broken)), 3)
    with pytest.raises(InputError, match="this one cannot be read"), running(source):
        pass


@pytest.mark.parametrize(
    "make", [PlaceholderInput, lambda: remap_input_source(PlaceholderInput(), ["image"]), lambda: 5]
)
def test_source_that_nobody_feeds_is_an_error(make):
    with pytest.raises(WrongTypeError, match="RepeatedBatches got input=.*: expected a"):
        RepeatedBatches(make(), 1)


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0), (-1, 1)])
def test_wrong_numbers_are_errors(numbers):
    with pytest.raises(ConfigError, match="expected an integer of at least 1"):
        RepeatedBatches(FeedInput(points()), *numbers)
