"""The first steps of ResNet-50 with tpack, for `startup.py`: what a script gets that names its model and its trainer.

python benchmarks/startup_tpack.py TOWERS LAUNCHED_AT
"""

import tempfile

import resnet50
from startup_phases import (
    BEFORE_TRAINING,
    CALLBACKS,
    FIRST_STEP,
    GRAPH,
    SECOND_STEP,
    SESSION,
    SIGNATURE,
    VARIABLES,
    main,
    make_batch,
    make_optimizer,
)

from tpack import (
    DEFAULT_CALLBACKS,
    DEFAULT_MONITORS,
    Callback,
    SimpleTrainer,
    StopTraining,
    SyncMultiGPUTrainerReplicated,
    TensorInput,
    logger,
)
from tpack.tfutils.sesscreate import NewSessionCreator, SessionCreatorAdapter


class FirstSteps(Callback):
    """Notes when the first two steps are done and ends training."""

    def __init__(self, phases):
        self._phases = phases

    def _before_epoch(self):
        self._phases.done(BEFORE_TRAINING)

    def _trigger_step(self):
        self._phases.done(FIRST_STEP if self.local_step == 1 else SECOND_STEP)
        if self.local_step == 2:
            raise StopTraining("two steps are enough")


def train(towers, phases):
    with tempfile.TemporaryDirectory() as directory:
        logger.set_logger_dir(directory)
        trainer = SimpleTrainer() if towers == 1 else SyncMultiGPUTrainerReplicated(towers)
        trainer.setup_graph(SIGNATURE, TensorInput(make_batch), resnet50.cost, make_optimizer)
        phases.done(GRAPH)
        trainer.setup_callbacks([*DEFAULT_CALLBACKS(), FirstSteps(phases)], DEFAULT_MONITORS())
        phases.done(CALLBACKS)

        def note(session):
            phases.done(SESSION)
            return session

        trainer.initialize(SessionCreatorAdapter(NewSessionCreator(), note))
        phases.done(VARIABLES)
        trainer.main_loop(steps_per_epoch=100, starting_epoch=1, max_epoch=1)
        logger.close_logger_dir()


if __name__ == "__main__":
    main(train)
