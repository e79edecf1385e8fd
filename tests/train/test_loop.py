import pytest

from tpack.errors import ConfigError
from tpack.train.loop import TrainLoop


def test_epochs_start_at_zero_steps_and_the_first_goes_on_where_the_run_was():
    loop = TrainLoop()
    loop.config(10, 3, 5, starting_step=4)
    assert (loop.epoch_num, loop.local_step) == (2, 0)
    loop.start_epoch(3)
    assert (loop.epoch_num, loop.local_step) == (3, 4)
    loop.start_epoch(4)
    assert (loop.epoch_num, loop.local_step) == (4, 0)


def test_an_epoch_is_finished_after_its_steps():
    loop = TrainLoop()
    loop.config(2, 1, 1)
    loop.start_epoch(1)
    loop.global_step = 7
    for finished in (False, False, True):
        assert loop.epoch_finished is finished
        loop.finish_steps(1)
    assert loop.global_step == 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 1), "steps_per_epoch=0: expected an integer of at least 1"),
        ((1.5, 1, 1), "steps_per_epoch=1.5: expected an integer of at least 1"),
        ((1, 0, 1), "starting_epoch=0: expected an integer of at least 1"),
        ((1, 1, -1), "max_epoch=-1: expected an integer of at least 0"),
        ((1, 1, True), "max_epoch=True: expected an integer"),
    ],
)
def test_numbers_that_are_too_small_are_errors(arguments, message):
    with pytest.raises(ConfigError, match=message):
        TrainLoop().config(*arguments)


def test_a_negative_starting_step_is_an_error():
    with pytest.raises(ConfigError, match="starting_step=-1: expected"):
        TrainLoop().config(1, 1, 1, starting_step=-1)
