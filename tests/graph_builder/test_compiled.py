"""Towers that XLA compiles give what they give without it, and what cannot be compiled is named."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tests.helpers.predict_models import make_config, scores
from tests.helpers.toy_training import Recorder
from tpack.compat.operations import is_marked_for_compilation
from tpack.errors import CompilationError, ConfigError, WrongTypeError
from tpack.graph_builder.compiled import CompilePolicy, as_compile_policy
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.tensors import PlaceholderInput, TensorInput
from tpack.models.batch_norm import BatchNorm
from tpack.models.conv2d import Conv2D
from tpack.models.fc import FullyConnected
from tpack.models.regularize import Dropout
from tpack.predict.config import PredictConfig
from tpack.predict.feedfree import FeedfreePredictor
from tpack.predict.offline import OfflinePredictor
from tpack.predict.towers import DataParallelOfflinePredictor, MultiTowerOfflinePredictor
from tpack.step import fetch_plan
from tpack.tfutils.sessinit import DictRestore
from tpack.tfutils.summary import add_moving_summary
from tpack.tower.context import TrainTowerContext
from tpack.train.trainers import (
    AsyncMultiGPUTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerHierarchical,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

TOWERS = ("tower0", "tower1", "tower2")
ROUNDING = {"rtol": 1e-3, "atol": 1e-5}


class Mixed(ModelDesc):
    """A convolution with batch normalisation, an embedding, dropout and a moving summary."""

    def inputs(self):
        return [tf.TensorSpec([None, 4, 4, 2], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        features = self.features(image)
        embedded = tf.nn.embedding_lookup(tf.get_variable("embedding", [3, 2]), label)
        features = tf.concat([_rows(features), embedded], axis=1, name="features")
        logits = FullyConnected("logits", Dropout(features, 0.5), 3)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(losses, name="cost")
        add_moving_summary(cost)
        return cost

    def features(self, image):
        return BatchNorm("norm", Conv2D("conv", image, 2, 3, use_bias=False))

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.1, 0.9)


def _rows(images):
    return tf.reshape(images, [-1, int(np.prod(images.shape[1:]))])


class WithPython(Mixed):
    """The same with a function of Python in the middle."""

    def features(self, image):
        same = tf.py_func(lambda values: values, [image], tf.float32)
        same.set_shape(image.shape)
        return FullyConnected("python", same, 2)


class WithLoop(Mixed):
    """A recurrent network over rows, in a loop of TensorFlow."""

    def features(self, image):
        weight = tf.get_variable("recurrent", [12, 4])
        rows = _rows(image)[:, :8]

        def step(index, state):
            return index + 1, tf.tanh(tf.matmul(tf.concat([rows, state], axis=1), weight))

        return tf.while_loop(
            lambda index, _: index < 3, step, [0, tf.zeros([tf.shape(rows)[0], 4])], maximum_iterations=3
        )[1]


def data_input():
    rng = np.random.default_rng(3)
    images, labels = rng.normal(size=(4, 4, 4, 2)).astype("float32"), rng.integers(0, 3, 4).astype("int32")
    return TensorInput(lambda: [tf.constant(images), tf.constant(labels)], size=3)


def weights_after(make_trainer, model, num_steps=3):
    """Return all variables after some steps, and the trainer."""
    with tf.Graph().as_default():
        tf.set_random_seed(5)
        trainer, recorder = make_trainer(), Recorder()
        trainer.setup_graph(model.get_input_signature(), data_input(), model.build_graph, model.get_optimizer)
        updates = tf.group(*tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        trainer.train_op = tf.group(trainer.train_op, updates)
        trainer.train_with_defaults(
            callbacks=[recorder], monitors=[], extra_callbacks=[], steps_per_epoch=num_steps, max_epoch=1
        )
        return recorder.weights, trainer


def assert_same(compiled, plain):
    assert compiled.keys() == plain.keys()
    for name, value in plain.items():
        np.testing.assert_allclose(compiled[name], value, **ROUNDING, err_msg=name)


def marked(graph):
    return {op.name for op in graph.get_operations() if is_marked_for_compilation(op)}


TRAINERS = {
    "simple": SimpleTrainer,
    "replicated": lambda **options: SyncMultiGPUTrainerReplicated(2, **options),
    "parameter-server": lambda **options: SyncMultiGPUTrainerParameterServer(2, **options),
}


@pytest.mark.parametrize("name", TRAINERS)
def test_a_compiled_training_learns_the_same(name):
    plain, _ = weights_after(TRAINERS[name], Mixed())
    with captured_log() as log:
        compiled, trainer = weights_after(lambda: TRAINERS[name](compile="xla"), Mixed())
    assert_same(compiled, plain)
    assert any("XLA compiles" in line and "uncompiled" not in line for line in log)
    types = {op.type for op in trainer.graph.get_operations() if is_marked_for_compilation(op)}
    assert {"Conv2D", "FusedBatchNormV3", "Conv2DBackpropFilter", "FusedBatchNormGradV3", "MatMul"} <= types
    assert {"ReadVariableOp", "StatelessRandomUniformV2", "ResourceApplyMomentum", "VarHandleOp"}.isdisjoint(types)
    outside = ("reduce_gradients", "sync_variables", "callbacks", "train_op", "MovingSummary", "average_gradients")
    assert not [name for name in marked(trainer.graph) if any(part in name for part in outside)]


def test_a_step_is_one_piece_of_compiled_code_for_each_tower():
    graph = tf.Graph()
    with graph.as_default():
        trainer, model = SyncMultiGPUTrainerReplicated(2, compile="xla"), Mixed()
        model.features = tf.identity
        trainer.setup_graph(model.get_input_signature(), data_input(), model.build_graph, model.get_optimizer)
        # What a session runs as it is cannot be changed any more; the devices are asked for by the graph.
        config = tf.ConfigProto(device_count={"CPU": 2})
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.Session(config=config) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            metadata = tf.RunMetadata()
            options = tf.RunOptions(output_partition_graphs=True)
            session.run(trainer.train_op, options=options, run_metadata=metadata)
    # On the second CPU device, TensorFlow cannot compile the slices that a concatenation has for its gradient.
    for partition in metadata.partition_graphs:
        on_first = any(node.device.endswith("CPU:0") for node in partition.node)
        assert [node.op for node in partition.node].count("_XlaRun") in ([1] if on_first else [1, 2, 3])
    assert len(metadata.partition_graphs) == 2


def test_what_xla_cannot_compile_is_named_with_its_line():
    with pytest.raises(CompilationError, match=r"no kernel for 'PyFunc' \(PyFunc, made in .*test_compiled.py line \d+"):
        weights_after(lambda: SimpleTrainer(compile="xla"), WithPython())


def test_loops_are_named_and_run_uncompiled_where_that_is_allowed():
    with pytest.raises(CompilationError, match=r"loops, conditions and functions within a graph: 'while' \(While"):
        weights_after(lambda: SimpleTrainer(compile="xla"), WithLoop())
    plain, _ = weights_after(SimpleTrainer, WithLoop())
    with captured_log() as log:
        compiled, _ = weights_after(lambda: SimpleTrainer(compile=CompilePolicy(fall_back=True)), WithLoop())
    assert_same(compiled, plain)
    assert any("run uncompiled: 'while' (While" in line for line in log)


@pytest.mark.parametrize(("name", "times"), [("simple", [2.0, 1.0]), ("replicated", [1.0, 2.0])])
def test_both_ways_are_measured_and_learn_the_same(name, times, monkeypatch):
    given = dict(zip((False, True), times, strict=True))
    measured_medians = fetch_plan.Trial.medians
    monkeypatch.setattr(
        fetch_plan.Trial, "medians", lambda trial: given if isinstance(trial.way, bool) else measured_medians(trial)
    )
    monkeypatch.setattr(fetch_plan, "BLOCK_STEPS", 2)
    monkeypatch.setattr(fetch_plan, "NUM_BLOCKS", 1)
    plain, _ = weights_after(TRAINERS[name], Mixed(), num_steps=10)
    with captured_log() as log:
        measured, trainer = weights_after(lambda: TRAINERS[name](compile="auto"), Mixed(), num_steps=10)
    assert_same(measured, plain)
    assert any("XLA compiles" in line for line in log)
    kept = {"simple": "compiled by XLA: 2e+03 ms", "replicated": "uncompiled: 1e+03 ms"}[name]
    assert len([line for line in log if f"Steps run {kept} a step uncompiled" in line]) == 1
    assert all(name.startswith("compiled/") for name in marked(trainer.graph))
    assert any(name.endswith("conv/output") for name in marked(trainer.graph))


def test_of_both_ways_only_one_is_compiled(graph):
    trainer, model = SimpleTrainer(compile="auto"), Mixed()
    trainer.setup_graph(model.get_input_signature(), data_input(), model.build_graph, model.get_optimizer)
    compiled = trainer.compiler.copy_step().in_place_of(trainer.train_op)
    options = tf.RunOptions(output_partition_graphs=True)
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for op, is_compiled in ((trainer.train_op, False), (compiled, True)):
            metadata = tf.RunMetadata()
            session.run(op, options=options, run_metadata=metadata)
            nodes = [node.op for partition in metadata.partition_graphs for node in partition.node]
            assert ("_XlaRun" in nodes) is is_compiled


def test_what_cannot_be_compiled_is_told_and_measured(monkeypatch):
    monkeypatch.setattr(fetch_plan, "BLOCK_STEPS", 1)
    monkeypatch.setattr(fetch_plan, "NUM_BLOCKS", 1)
    plain, _ = weights_after(SimpleTrainer, WithPython(), num_steps=5)
    with captured_log() as log:
        measured, _ = weights_after(lambda: SimpleTrainer(compile="auto"), WithPython(), num_steps=5)
    assert_same(measured, plain)
    assert any("these run uncompiled: 'PyFunc'" in line for line in log)
    assert any("ms a step uncompiled" in line for line in log)


class Drawing(Mixed):
    """Draws as many numbers as something computed says, from a state of TensorFlow's own."""

    def features(self, image):
        size = tf.cast(tf.reduce_mean(tf.ones_like(image)) * 4, tf.int32)
        noise = tf.raw_ops.RandomUniform(shape=[size, 1, 1, 1], dtype=tf.float32, seed=1, seed2=1)
        noise.set_shape([None, 1, 1, 1])
        return image + noise


def test_steps_that_cannot_be_made_both_ways_are_uncompiled():
    plain, _ = weights_after(SimpleTrainer, Drawing())
    with captured_log() as log:
        measured, trainer = weights_after(lambda: SimpleTrainer(compile="auto"), Drawing())
    assert_same(measured, plain)
    assert not marked(trainer.graph)
    assert any('compile="auto" cannot make them both ways, since RandomUniform' in line for line in log)
    assert not any("XLA compiles" in line for line in log)


def test_several_steps_a_call_and_predictors_are_not_measured(graph):
    trainer, model = SimpleTrainer(compile="auto"), Mixed()
    trainer.setup_graph(model.get_input_signature(), data_input(), model.build_graph, model.get_optimizer)
    trainer.get_predictor(["image", "label"], ["features"])
    assert not marked(graph)
    trainer.steps_per_call = 4
    with pytest.raises(ConfigError, match="got steps_per_call=4: expected 1, since it measures single steps"):
        trainer.setup_callbacks([], [])
    with pytest.raises(ConfigError, match='PredictConfig got compile="auto", .*: expected "xla"'):
        make_config(compile="auto")


def test_every_trainer_takes_a_way_to_compile(graph):
    made = [
        SimpleTrainer(compile="xla"),
        SyncMultiGPUTrainerHierarchical(2, compile="xla"),
        AsyncMultiGPUTrainer(2, compile=CompilePolicy()),
    ]
    assert all(trainer.compiler is not None and trainer.is_compiled for trainer in made)
    assert SimpleTrainer().compiler is None


def test_a_copied_tower_is_compiled_too(graph):
    trainer, model = SyncMultiGPUTrainerReplicated(3, compile="xla"), Mixed()
    trainer.setup_graph(model.get_input_signature(), data_input(), model.build_graph, model.get_optimizer)
    towers = [{name.split("/", 1)[1] for name in marked(graph) if name.startswith(f"tower{k}/")} for k in (1, 2)]
    assert "conv/output" in towers[0]
    assert len(towers[0]) == len(towers[1])
    scopes = {name: graph.get_operation_by_name(f"{name}/conv/output").get_attr("_XlaScope") for name in TOWERS}
    assert scopes == {name: f"tpack_{name}".encode() for name in TOWERS}


def test_shapes_may_change(graph):
    tower = TrainTowerContext("")
    x = tf.placeholder(tf.float32, [None, 3])
    compiler = SimpleTrainer(compile="xla").compiler
    with tower, compiler.watching(tower):
        total = tf.reduce_sum(tf.tanh(x) * 2)
    compiler.mark(tower, [total])
    with tf.Session() as session:
        compiler.check(session)
        for rows in (1, 4, 2, 4, 1):
            value = np.full([rows, 3], 0.5, "float32")
            assert session.run(total, {x: value}) == pytest.approx(6 * rows * np.tanh(0.5), rel=1e-5)
    assert marked(graph) == {"Tanh", "mul", "mul/y", "Sum", "Const"}


def test_towers_that_are_built_in_turns_keep_their_operations_apart(graph):
    compiler = SimpleTrainer(compile="xla").compiler
    first, second = TrainTowerContext("a"), TrainTowerContext("b")
    with compiler.watching(first), compiler.watching(second):
        with first:
            x = tf.exp(tf.placeholder(tf.float32))
        with second:
            y = tf.exp(tf.placeholder(tf.float32))
            tf.exp(y, name="unused")
        tf.exp(x, name="outside")
    compiler.mark(first, [x])
    assert marked(graph) == {"a/Exp"}
    compiler.mark(second, [y.op])
    assert marked(graph) == {"a/Exp", "b/Exp"}


IMAGE = np.arange(12, dtype="float32").reshape(4, 3)


@pytest.mark.parametrize(
    "make",
    [OfflinePredictor, lambda c: MultiTowerOfflinePredictor(c, 2), lambda c: DataParallelOfflinePredictor(c, 2)],
    ids=["offline", "multi-tower", "data-parallel"],
)
def test_a_compiled_predictor_returns_the_same(make):
    predictor = make(make_config(compile="xla"))
    np.testing.assert_allclose(predictor(IMAGE, 0.5)[0], scores(IMAGE, 0.5), rtol=1e-5)
    types = {op.type for op in predictor.graph.get_operations() if is_marked_for_compilation(op)}
    assert {"MatMul", "Softplus"} <= types
    # What no output needs is left as it is.
    assert "Sum" not in types
    predictor.sess.close()


def test_a_compiled_predictor_may_take_its_input_from_the_graph():
    data = TensorInput(lambda: [tf.constant(IMAGE), tf.constant(0.5)], size=1)
    with FeedfreePredictor(make_config(compile="xla"), data) as predict:
        np.testing.assert_allclose(predict()[0], scores(IMAGE, 0.5), rtol=1e-5)
        assert marked(predict.graph)


def test_a_predictor_of_a_compiled_training_is_compiled(graph):
    trainer = SimpleTrainer(compile="xla")
    model = Mixed()
    trainer.setup_graph(model.get_input_signature(), PlaceholderInput(), model.build_graph, model.get_optimizer)
    trainer.get_predictor(["image", "label"], ["features"])
    assert {name for name in marked(graph) if name.startswith("tower-pred-0/conv")}
    assert not {name for name in marked(graph) if name.startswith("tower-pred-0/cost")}


def test_a_predictor_names_what_cannot_be_compiled():
    def model(x):
        tf.strings.length(tf.strings.as_string(x), name="length")

    config = PredictConfig(
        tower_func=model,
        input_signature=[tf.TensorSpec([None], tf.float32, "x")],
        output_names=["length"],
        compile="xla",
        session_init=DictRestore({}),
    )
    with pytest.raises(CompilationError, match=r"no kernel for 'AsString' \(AsString.*'length' \(StringLength"):
        OfflinePredictor(config)


def test_a_way_to_compile_must_be_known():
    assert as_compile_policy(None) is None
    assert as_compile_policy("xla") == CompilePolicy()
    policy = CompilePolicy(fall_back=True)
    assert as_compile_policy(policy) is policy
    with pytest.raises(ConfigError, match="compile got 'xlaa': expected one of xla, auto, a CompilePolicy or None"):
        SimpleTrainer(compile="xlaa")
    with pytest.raises(WrongTypeError, match="compile"):
        SimpleTrainer(compile=3)
