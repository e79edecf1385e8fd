"""The first steps of a model with tpack, for `startup.py`: what a script gets that names its model and its trainer.

python benchmarks/startup_tpack.py MODEL TOWERS LAUNCHED_AT [--tower-building build] [--grappler on]
"""

import tempfile

from startup_phases import (
    BATCH,
    BEFORE_TRAINING,
    CALLBACKS,
    FIRST_STEP,
    GRAPH,
    SECOND_STEP,
    VARIABLES,
    main,
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
from tpack.tfutils.sesscreate import NewSessionCreator


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


def make_trainer(options):
    """Return the trainer of so many towers."""
    if options.towers == 1:
        return SimpleTrainer()
    return SyncMultiGPUTrainerReplicated(options.towers, tower_building=options.tower_building)


def train(model, phases, options):
    with tempfile.TemporaryDirectory() as directory:
        logger.set_logger_dir(directory)
        trainer = make_trainer(options)
        data = TensorInput(lambda: model.tensors(BATCH))
        trainer.setup_graph(model.signature(BATCH), data, model.cost, make_optimizer)
        phases.done(GRAPH)
        trainer.setup_callbacks([*DEFAULT_CALLBACKS(), FirstSteps(phases)], DEFAULT_MONITORS())
        phases.done(CALLBACKS)
        trainer.initialize(NewSessionCreator(grappler=options.grappler))
        phases.done(VARIABLES)
        phases.built(trainer.graph)
        trainer.main_loop(steps_per_epoch=100, starting_epoch=1, max_epoch=1)
        logger.close_logger_dir()


if __name__ == "__main__":
    main(train)
