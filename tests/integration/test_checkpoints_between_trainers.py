"""Checkpoints move between 1, 2 and 8 towers of every builder, both ways, averages of batch normalisation included."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack import (
    AsyncMultiGPUTrainer,
    BatchNorm,
    Callback,
    Conv2D,
    FullyConnected,
    ModelDesc,
    ModelSaver,
    SimpleTrainer,
    SmartInit,
    SyncMultiGPUTrainerHierarchical,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TensorInput,
    TrainConfig,
    launch_train_with_config,
)

TRAINERS = {
    "replicated": SyncMultiGPUTrainerReplicated,
    "parameter server": SyncMultiGPUTrainerParameterServer,
    "async": AsyncMultiGPUTrainer,
    "hierarchical": lambda towers: SyncMultiGPUTrainerHierarchical(8),
}
# Every way between 1, 2 and 8 towers is in it once.
TOWERS = (1, 2, 8, 2, 1, 8, 1)
STEPS = 2


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None, 4, 4, 2], tf.float32, "image"), tf.TensorSpec([None, 3], tf.float32, "target")]

    def build_graph(self, image, target):
        features = BatchNorm("bn", Conv2D("conv", image, 3, 3, use_bias=False), momentum=0.5)
        return tf.reduce_mean(tf.square(FullyConnected("fc", features, 3) - target), name="cost")

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.01, 0.9)


class Values(Callback):
    """Reads all variables before and after training, by name in the graph."""

    def _before_train(self):
        self.before = self._read()

    def _after_train(self):
        self.after = self._read()

    def _read(self):
        return self.trainer.sess.run({v.op.name: v for v in tf.global_variables() + tf.local_variables()})


def train(trainer, towers, directory, load, **options):
    """Make some steps and return what was read, with the path of the checkpoint."""
    values = Values()

    def batch():
        return [tf.random.stateless_normal(shape, [1, 2]) for shape in ([4, 4, 4, 2], [4, 3])]

    with tf.Graph().as_default():
        tf.set_random_seed(3)
        config = TrainConfig(
            model=Model(),
            data=TensorInput(batch),
            callbacks=[ModelSaver(checkpoint_dir=str(directory)), values],
            monitors=[],
            session_init=SmartInit(load),
            steps_per_epoch=STEPS,
            max_epoch=1,
        )
        launch_train_with_config(config, SimpleTrainer() if towers == 1 else TRAINERS[trainer](towers, **options))
    return values, tf.train.latest_checkpoint(str(directory))


def assert_loaded(values, checkpoint, num_copies):
    """Assert that the variables of every tower are those of the checkpoint."""
    reader = tf.train.load_checkpoint(checkpoint)
    saved = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    assert {"conv/W", "conv/W/Momentum", "bn/gamma", "bn/mean/EMA", "bn/variance/EMA", "fc/b"} <= set(saved)
    checked = set()
    for name, value in values.before.items():
        tower, _, rest = name.partition("/")
        main_name = rest if tower.startswith("tower") else name
        if main_name in saved:
            np.testing.assert_array_equal(value, saved[main_name], err_msg=name)
            checked.add(name)
    assert set(saved) <= checked
    own = [name for name in checked if name.endswith("bn/mean/EMA")]
    assert len(own) == num_copies


@pytest.mark.parametrize("trainer", TRAINERS)
def test_checkpoints_move_between_numbers_of_towers(trainer, tmp_path):
    sequence = (1, 8, 1) if trainer == "hierarchical" else TOWERS
    checkpoint = None
    for number, towers in enumerate(sequence):
        values, saved = train(trainer, towers, tmp_path / str(number), checkpoint)
        if checkpoint is not None:
            assert_loaded(values, checkpoint, towers if trainer in ("replicated", "hierarchical") else 1)
        # Something was learned, so that the next one has something else to load.
        for name in ("conv/W", "bn/mean/EMA", "bn/variance/EMA", "fc/W/Momentum"):
            assert (values.before[name] != values.after[name]).any(), name
        assert values.after["global_step"] == STEPS * (number + 1)
        checkpoint = saved


def test_checkpoints_of_copied_towers_are_those_of_built_ones(tmp_path):
    def runs(how, load):
        return train("replicated", 3, tmp_path / f"{how}_{load is not None}_{len(done)}", load, tower_building=how)

    done = []
    for how in ("build", "copy"):
        done.append(runs(how, None))
    for how in ("build", "copy"):
        for _, checkpoint in done[:2]:
            done.append(runs(how, checkpoint))
            assert_loaded(done[-1][0], checkpoint, 3)
    first, resumed = ([values.after for values, _ in part] for part in (done[:2], done[2:]))
    for same in (first, resumed):
        for others in same[1:]:
            assert others.keys() == same[0].keys()
            assert [name for name in others if not np.array_equal(others[name], same[0][name])] == []
    assert [values.after["global_step"] for values, _ in done] == [STEPS] * 2 + [2 * STEPS] * 4
