import numpy as np
import pytest

from tests.helpers.toy_training import Line, Recorder, line_input
from tpack.errors import ConfigError, ReductionError, WrongTypeError
from tpack.reduction.algorithms.composite import HierarchicalReducer
from tpack.reduction.algorithms.one_device import OneDeviceReducer, RoundRobinReducer
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.autotune.autotune import AutoReducer
from tpack.train.trainers import (
    AsyncMultiGPUTrainer,
    NoOpTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerHierarchical,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

TRAINERS = {
    "simple": SimpleTrainer,
    "default": lambda: SyncMultiGPUTrainer(2),
    "replicated": lambda: SyncMultiGPUTrainerReplicated(3),
    "hierarchical": lambda: SyncMultiGPUTrainerHierarchical(4),
    "parameter-server": lambda: SyncMultiGPUTrainerParameterServer([0, 2]),
    "parameter-server-cpu": lambda: SyncMultiGPUTrainerParameterServer(2, "cpu"),
    "async": lambda: AsyncMultiGPUTrainer(2),
}


def launch(trainer, steps_per_epoch=100):
    model, recorder = Line(), Recorder()
    trainer.setup_graph(model.get_input_signature(), line_input(), model.build_graph, model.get_optimizer)
    trainer.train_with_defaults(
        callbacks=[recorder], monitors=[], extra_callbacks=[], steps_per_epoch=steps_per_epoch, max_epoch=2
    )
    return recorder


@pytest.mark.parametrize("name", TRAINERS)
def test_every_trainer_fits_the_line(name):
    recorder = launch(TRAINERS[name]())
    np.testing.assert_allclose([recorder.weights["w"], recorder.weights["b"]], [2, 1], rtol=1e-3)
    assert recorder.weights["global_step"] == 200


@pytest.mark.parametrize("name", [name for name in TRAINERS if name != "async"])
def test_checkpoints_have_the_same_variables_whatever_the_trainer(name):
    recorder = launch(TRAINERS[name](), steps_per_epoch=1)
    assert set(recorder.weights) == {"w", "b", "learning_rate", "global_step"}


@pytest.mark.parametrize("name", TRAINERS)
def test_every_trainer_takes_a_precision(name):
    class_or_function, args = {
        "simple": (SimpleTrainer, ()),
        "default": (SyncMultiGPUTrainer, (2,)),
        "replicated": (SyncMultiGPUTrainerReplicated, (3,)),
        "hierarchical": (SyncMultiGPUTrainerHierarchical, (4,)),
        "parameter-server": (SyncMultiGPUTrainerParameterServer, ([0, 2],)),
        "parameter-server-cpu": (SyncMultiGPUTrainerParameterServer, (2, "cpu")),
        "async": (AsyncMultiGPUTrainer, (2,)),
    }[name]
    assert class_or_function(*args).precision.compute_dtype == "float32"
    assert class_or_function(*args, precision="bfloat16").precision.compute_dtype == "bfloat16"
    with pytest.raises(ConfigError, match="precision got 'fp8': expected one of float32, bfloat16, float16"):
        class_or_function(*args, precision="fp8")


def test_no_op_trainer_runs_callbacks_and_trains_nothing():
    recorder = launch(NoOpTrainer(), steps_per_epoch=1)
    assert recorder.weights["w"] == 0
    assert [call[0] for call in recorder.calls].count("trigger_epoch") == 2


def test_shared_variables_are_balanced_over_few_towers_only():
    assert SyncMultiGPUTrainerParameterServer(4).builder._ps_device == "gpu"
    assert SyncMultiGPUTrainerParameterServer([0, 1, 2, 3, 4]).builder._ps_device == "cpu"


def test_the_mode_of_the_replicated_trainer_is_text_or_a_reducer():
    reducer = RingReducer()
    assert SyncMultiGPUTrainerReplicated(2, mode=reducer).builder.reducer is reducer
    assert isinstance(SyncMultiGPUTrainerReplicated(2, True, "cpu").builder.reducer, OneDeviceReducer)
    assert isinstance(SyncMultiGPUTrainerReplicated(2, mode="auto").builder.reducer, AutoReducer)
    default = SyncMultiGPUTrainerReplicated(2)
    assert isinstance(default.builder.reducer, RoundRobinReducer)
    assert default.reduction.startswith("round_robin (copies between CPU devices share memory")
    assert isinstance(SyncMultiGPUTrainerReplicated(1).builder.reducer, RoundRobinReducer)
    with pytest.raises(ConfigError, match="got mode='ring-a-ding': expected one of auto, cpu, "):
        SyncMultiGPUTrainerReplicated(2, mode="ring-a-ding")
    with pytest.raises(WrongTypeError, match="^SyncMultiGPUTrainerReplicated got mode="):
        SyncMultiGPUTrainerReplicated(2, mode=3)


def test_hierarchical_reduces_hierarchically_or_not_at_all():
    assert isinstance(SyncMultiGPUTrainerHierarchical(8).builder.reducer, HierarchicalReducer)
    with pytest.raises(ReductionError, match="3"):
        SyncMultiGPUTrainerHierarchical(3)


@pytest.mark.parametrize("gpus", [0, [], [1, 1], [-1], "8", 2.5, None, True])
def test_towers_that_cannot_be_understood_are_errors(gpus):
    with pytest.raises(ConfigError, match="got"):
        SyncMultiGPUTrainerReplicated(gpus)


@pytest.mark.parametrize("gpus", ["8", None, 2.5])
def test_parameter_server_checks_its_towers_too(gpus):
    with pytest.raises(ConfigError, match="got gpus=.*: expected an integer or a list of integers"):
        SyncMultiGPUTrainerParameterServer(gpus)
