import inspect

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError
from tpack.predict.config import PredictConfig
from tpack.train.trainer import InOwnGraph
from tpack.train.trainers import SimpleTrainer

SPEC = tf.TensorSpec([], tf.float32, "x")


class Building(metaclass=InOwnGraph):
    def __init__(self):
        self.tensor = tf.constant(1)


def test_objects_are_made_in_a_graph_of_their_own_where_eager_mode_is_on():
    assert tf.executing_eagerly()
    assert Building().tensor.graph is not Building().tensor.graph


def test_a_graph_of_their_own_has_the_seed_of_the_program():
    assert Building().tensor.graph.seed is None
    tf.set_random_seed(5)
    try:
        assert Building().tensor.graph.seed == 5
        assert SimpleTrainer().graph.seed == 5
        assert PredictConfig(tower_func=tf.identity, input_signature=[SPEC], output_names=["y"]).make_graph().seed == 5
    finally:
        tf.set_random_seed(None)


def test_objects_are_made_in_the_graph_that_is_active():
    with tf.Graph().as_default() as graph:
        assert Building().tensor.graph is graph


def test_where_something_was_trained_another_graph_is_made_with_the_seed_of_the_program():
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(5)
        graph.finalize()
        with captured_log() as lines:
            made = Building().tensor.graph
        assert not made.finalized
        assert made.seed == 5
    assert lines == ["Building builds in a new graph: the default one is finalized by an earlier training or run."]


def test_the_arguments_of_a_class_are_shown_as_its_own():
    class Takes(Building):
        def __init__(self, gpus, average=True):
            super().__init__()

    assert str(inspect.signature(Takes)) == "(gpus, average=True)"
    assert str(inspect.signature(Building)) == "()"


TF_CONFIG = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
SLURM = {
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_PROCID": "1",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
}


@pytest.mark.parametrize(
    ("variables", "named"), [({"TF_CONFIG": TF_CONFIG}, "TF_CONFIG"), (SLURM, "SLURM_")], ids=["TF_CONFIG", "Slurm"]
)
def test_no_trainer_is_made_in_one_of_several_processes(monkeypatch, graph, variables, named):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"SimpleTrainer trains on the devices of one machine, and {named}.* says?"):
        SimpleTrainer()
    assert not graph.get_operations()
