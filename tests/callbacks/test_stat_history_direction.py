"""Whether a statistic is better when it is larger or smaller is taken from its name where that is clear."""

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.hyper_param import ObjAttrParam
from tpack.callbacks.min_max_saver import MaxSaver, MinSaver
from tpack.callbacks.param_setters import StatMonitorParamSetter
from tpack.callbacks.stat_history import mode_of
from tpack.callbacks.stopping import EarlyStopping
from tpack.errors import ConfigError, StopTraining

UP = """acc accuracy validation_acc val-accuracy Val/Accuracy validationAccuracy top1_acc accuracy_top5 auc AUROC f1
val_F1 f1_score precision val_precision recall mAP mAP50 map mean_iou mIoU IoU psnr PSNR ssim bleu BLEU4 reward
mean_rewards score scores validation_correct episode_return"""
DOWN = """loss losses total_loss losses/cost val-error-top1 validation_error errors err cost perplexity ppl wer WER
validation_cost rmse val_mse nll trainLoss error1"""
UNCLEAR = (
    "reported learning_rate x accuracy_loss neg_reward negative_score mapping lossless scoreboard total_1 queue_size"
)


@pytest.mark.parametrize(
    ("names", "mode"), [(UP, "max"), (DOWN, "min"), (UNCLEAR, None)], ids=["larger", "smaller", "unclear"]
)
def test_names_say_which_values_are_better(names: str, mode: str | None) -> None:
    assert {name: mode_of(name) for name in names.split()} == {name: mode for name in names.split()}


def setter(name: str, **options: Any) -> StatMonitorParamSetter:
    return StatMonitorParamSetter(
        ObjAttrParam(SimpleNamespace(rate=1.0), "rate"), name, lambda x: x / 2, 0, 1, **options
    )


def train(callback: Any, name: str, values: Any) -> tuple[int, list[str]]:
    """Report a value in each epoch; return the epoch that was the last, and what was logged."""
    pending = list(values)
    report = CallbackFactory(trigger=lambda cb: cb.trainer.monitors.put_scalar(name, pending.pop(0)))
    trainer = FakeTrainer()
    with captured_log() as lines, contextlib.suppress(StopTraining):
        trainer.train([callback, report], epochs=(1, len(values)), steps_per_epoch=1)
    return trainer.epoch_num, lines


def test_training_that_gets_more_accurate_goes_on(graph: Any) -> None:
    epoch, lines = train(EarlyStopping("validation_acc"), "validation_acc", [0.5, 0.6, 0.7, 0.6, 0.7])
    assert epoch == 4
    assert "EarlyStopping(validation_acc) takes validation_acc to be better when it is larger." in lines


def test_a_rate_is_kept_while_accuracy_rises(graph: Any) -> None:
    callback = setter("val_acc")
    _, lines = train(callback, "val_acc", [0.5, 0.6, 0.7])
    assert callback.param.get_value() == 1.0
    assert any("takes val_acc to be better when it is larger." in line for line in lines)


@pytest.mark.parametrize(("reverse", "expected"), [(None, 0.25), (False, 0.25), (True, 1.0)])
def test_a_setter_takes_an_unclear_name_to_be_better_when_smaller(graph: Any, reverse: Any, expected: float) -> None:
    callback = setter("reported", reverse=reverse)
    train(callback, "reported", [1, 2, 3])
    assert callback.param.get_value() == expected


def test_a_name_that_says_nothing_needs_a_mode() -> None:
    with pytest.raises(ConfigError, match="EarlyStopping got mode=None, and the name 'x' .*: expected 'min' or 'max'"):
        EarlyStopping("x")
    EarlyStopping("x", mode="max")


@pytest.mark.parametrize(
    ("make", "name", "is_told"),
    [
        (MaxSaver, "val_loss", True),
        (MinSaver, "val_acc", True),
        (lambda name: MinSaver(name, reverse=True), "val_loss", True),
        (lambda name: EarlyStopping(name, mode="min", patience=9), "val_acc", True),
        (lambda name: setter(name, reverse=False), "val_acc", True),
        (MaxSaver, "val_acc", False),
        (MinSaver, "val_loss", False),
        (MaxSaver, "reported", False),
        (lambda name: EarlyStopping(name, mode="max", patience=9), "val_acc", False),
    ],
)
def test_what_the_name_contradicts_is_told(graph: Any, log_dir: Any, make: Any, name: str, is_told: bool) -> None:
    _, lines = train(make(name), name, [1, 2])
    assert any("as it was told. By its name it is better when" in line for line in lines) == is_told
