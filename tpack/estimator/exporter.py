"""What `train_and_evaluate` does with a model after each evaluation: export it, or not."""

import abc
from collections.abc import Mapping
from typing import Any


class Exporter(abc.ABC):
    """Decides whether a model that was evaluated is exported, and exports it.

    Source:
        ``tf.estimator.Exporter`` of TensorFlow 1.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name of the directory that exports go to, in ``export`` of the model's."""

    @abc.abstractmethod
    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> str | None:
        """Export the model, or leave it.

        Args:
            estimator: the `Estimator`.
            export_path: the directory for exports of this exporter.
            checkpoint_path: the checkpoint that was evaluated.
            eval_result: what the evaluation returned.
            is_the_final_export: whether training has ended.

        Returns:
            The path of the model that was written, or None.
        """
