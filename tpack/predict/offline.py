"""Prediction outside of training, in a graph and a session of its own."""

import tensorflow.compat.v1 as tf

from tpack.errors import CompilationError
from tpack.graph_builder.compiled import TowerCompiler, build_watched
from tpack.input_source.tensors import PlaceholderInput
from tpack.predict.config import PredictConfig
from tpack.predict.online import OnlinePredictor
from tpack.tfutils.determinism import create_initialized_session, order_sums
from tpack.tower.context import PredictTowerContext
from tpack.utils.validation import check_arguments, check_instance


@check_arguments
class OfflinePredictor(OnlinePredictor):
    """Predictor with a graph and a session of its own.

    Building and restoring are slow, calls are fast: keep the predictor. Several threads may call it.

    Args:
        config: the model and its weights.

    Attributes:
        graph: the graph.
        sess: the session; ``predictor.sess.close()`` frees its memory early.

    Raises:
        ConfigError: ``config`` is not a `PredictConfig`.
        TowerError: The model has no tensor of an input or output name. The message lists near names.
        CheckpointError: The weights are missing, damaged or of other shapes.
        CompilationError: XLA cannot compile a marked operation.

    Example:
        logits, = OfflinePredictor(config)(image[np.newaxis])
    """

    def __init__(self, config: PredictConfig) -> None:
        self.graph = check_config(config, self).make_graph()
        with self.graph.as_default():
            tower_func = config.tower_func.without_towers()
            source = PlaceholderInput()
            source.setup(config.input_signature)
            compiler, context = config.make_compiler(), PredictTowerContext("")
            tower = build_watched(tower_func, context, source.get_input_tensors, compiler)
            inputs, outputs = tower.get_tensors(config.input_names), tower.get_tensors(config.output_names)
            super().__init__(inputs, outputs, config.return_input)
            if compiler is not None:
                compiler.mark(context, outputs)
            self.sess = create_predict_session(config, compiler)


def check_config(config: PredictConfig, predictor: object) -> PredictConfig:
    """Return the config; raise a `ConfigError` if it is something else."""
    return check_instance(predictor, "config", config, PredictConfig)


def create_predict_session(config: PredictConfig, compiler: TowerCompiler | None = None) -> tf.Session:
    """Return the session of a predictor, with the weights of its config.

    Raises:
        CompilationError: A marked operation cannot be compiled.
        DeviceError: The session lacks a device of the graph.
        CheckpointError: The weights are missing, damaged or of other shapes.
    """
    # Another session may have run parts of an older graph, whose operations are fixed then.
    if config.create_graph:
        order_sums(tf.get_default_graph(), config.session_creator)
    session = create_initialized_session(config.session_creator, config.session_init)
    if compiler is not None:
        try:
            compiler.check(session)
        except CompilationError:
            session.close()
            raise
    return session
