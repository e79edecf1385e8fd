"""`BestExporter` with the default of TensorFlow 1.15: results of earlier runs count."""

from collections.abc import Callable, Mapping
from typing import Any

from tpack.estimator import exporters


class BestExporter(exporters.BestExporter):
    """Exports when an evaluation is better than all before, those of earlier runs included.

    Args:
        name: as for `tpack.estimator.BestExporter`.
        serving_input_receiver_fn: as for `tpack.estimator.BestExporter`.
        event_file_pattern: where results are; None counts those of this exporter alone.
        compare_fn: as for `tpack.estimator.BestExporter`.
        assets_extra: as for `tpack.estimator.BestExporter`.
        as_text: as for `tpack.estimator.BestExporter`.
        exports_to_keep: as for `tpack.estimator.BestExporter`.

    Raises:
        ConfigError: As for `tpack.estimator.BestExporter`.

    Source:
        The class of this name in ``tf.estimator`` of TensorFlow 1.15.
    """

    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: Any = None,
        event_file_pattern: str | None = "eval/*.tfevents.*",
        compare_fn: Callable[..., bool] = exporters.loss_smaller,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        super().__init__(
            name, serving_input_receiver_fn, event_file_pattern, compare_fn, assets_extra, as_text, exports_to_keep
        )
