"""Prediction on the data of an input source."""

import atexit
import weakref
from contextlib import ExitStack
from typing import Any, cast

from tpack.errors import ConfigError
from tpack.graph_builder.compiled import build_watched
from tpack.input_source.base import InputSource
from tpack.predict.base import PredictorBase
from tpack.predict.config import PredictConfig
from tpack.predict.offline import check_config, create_predict_session
from tpack.step.hooked_session import HookedSession
from tpack.step.queue_runners import QueueRunnerThreads
from tpack.tower.context import PredictTowerContext
from tpack.types import Trainer
from tpack.utils.validation import check_arguments


@check_arguments
class FeedfreePredictor(PredictorBase):
    """Predictor of the next data point of an input source.

    The source may prefetch in the background. `close`, a ``with`` block, or the end of the program ends its threads and
    the session.

    Args:
        config: the model and its weights; its input names are ignored.
        input_source: the source, not set up before.

    Attributes:
        graph: the graph.
        sess: the session.

    Raises:
        ConfigError: ``config`` is not a `PredictConfig`, or has ``return_input``; ``input_source`` is not an
            `InputSource`; in a call, the predictor is closed.
        TowerError: The model has no tensor of an output name. The message lists near names.
        CheckpointError: The weights are missing, damaged or of other shapes.
        DataExhaustedError: In a call, the data have ended.
        InputError: In a call, the data have failed, for the reason in the message.

    Example:
        with FeedfreePredictor(config, QueueInput(dataflow)) as predict:
            results = [predict() for _ in range(len(dataflow))]
    """

    # Read by the callbacks of an input.
    train_op = None
    interrupted = False

    def __init__(self, config: PredictConfig, input_source: InputSource) -> None:
        if check_config(config, self).return_input:
            raise ConfigError("FeedfreePredictor got return_input=True: expected False, since it never sees its input")
        self.graph = config.make_graph()
        with self.graph.as_default():
            self._callbacks = input_source.setup(config.input_signature)
            tower_func = config.tower_func.without_towers()
            compiler, context = config.make_compiler(), PredictTowerContext("")
            tower = build_watched(tower_func, context, input_source.get_input_tensors, compiler)
            self.output_tensors = tower.get_tensors(config.output_names)
            if compiler is not None:
                compiler.mark(context, self.output_tensors)
            for callback in self._callbacks:
                # An input uses only the graph and sessions of a trainer.
                callback.setup_graph(cast(Trainer, self))
            self.sess = create_predict_session(config, compiler)
        self._queue_runners = QueueRunnerThreads(self.sess)
        self.hooked_sess = HookedSession(self.sess, [*self._callbacks, *self._queue_runners.callbacks()])
        self._is_closed = False
        self._start()

    def __call__(self) -> list[Any]:
        """Return the outputs for the next data point; a closed predictor raises a `ConfigError`."""
        if self._is_closed:
            raise ConfigError("FeedfreePredictor is closed")
        return self.hooked_sess.run(self.output_tensors)

    def close(self) -> None:
        """End the threads of the input source, and close the session."""
        if self._is_closed:
            return
        self._is_closed = True
        with self.graph.as_default(), self.sess.as_default(), ExitStack() as stack:
            # Run in reverse, each even if another fails.
            stack.callback(self.hooked_sess.close)
            stack.callback(self._queue_runners.end)
            for callback in reversed(self._callbacks):
                stack.callback(callback.after_train)

    def _start(self) -> None:
        # TensorFlow kills a process that ends while a thread runs a session.
        atexit.register(_close, weakref.ref(self))
        with self.graph.as_default(), self.sess.as_default():
            try:
                for callback in self._callbacks:
                    callback.before_train()
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> "FeedfreePredictor":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _close(reference: "weakref.ref[FeedfreePredictor]") -> None:
    """Close a predictor that still exists."""
    predictor = reference()
    if predictor is not None:
        predictor.close()
