"""Exporters keep the newest models, or export the last one only."""

import os

import pytest

from tpack.errors import ConfigError, WrongTypeError
from tpack.estimator.exporters import Exporter, FinalExporter, LatestExporter


def receive():
    """Stand for a serving_input_receiver_fn."""


class Exporting:
    """Stands for an Estimator: makes a directory for each export and notes the arguments."""

    def __init__(self):
        self.calls = []

    def export_saved_model(self, base, receive, **options):
        path = os.path.join(base, str(100 + len(self.calls)))
        os.makedirs(path)
        self.calls.append((receive, options))
        return path


def export(exporter, estimator, base, *, final=False):
    return exporter.export(estimator, str(base), "checkpoint", {"loss": 1.0}, final)


def test_the_newest_are_kept(tmp_path):
    estimator = Exporting()
    exporter = LatestExporter("name", receive, {"a": "b"}, as_text=True, exports_to_keep=2)
    assert exporter.name == "name"
    (tmp_path / "other").mkdir()
    for number in range(4):
        assert export(exporter, estimator, tmp_path, final=number == 3) == str(tmp_path / f"{100 + number}")
    assert sorted(os.listdir(tmp_path)) == ["102", "103", "other"]
    options = {"assets_extra": {"a": "b"}, "as_text": True, "checkpoint_path": "checkpoint"}
    assert estimator.calls == [(receive, options)] * 4


def test_all_are_kept(tmp_path):
    estimator = Exporting()
    exporter = LatestExporter("name", receive, exports_to_keep=None)
    for _ in range(7):
        export(exporter, estimator, tmp_path)
    assert len(os.listdir(tmp_path)) == 7


def test_only_the_last_is_exported(tmp_path):
    estimator = Exporting()
    exporter = FinalExporter("name", receive)
    assert export(exporter, estimator, tmp_path) is None
    assert export(exporter, estimator, tmp_path, final=True) == str(tmp_path / "100")
    assert len(estimator.calls) == 1


def test_what_cannot_be_is_refused():
    with pytest.raises(WrongTypeError, match="^FinalExporter got name=None: expected text"):
        FinalExporter(None, receive)
    with pytest.raises(ConfigError, match="got name='': expected text that is not empty"):
        FinalExporter("", receive)
    with pytest.raises(ConfigError, match="LatestExporter got exports_to_keep=0: expected an integer of at least 1"):
        LatestExporter("name", receive, exports_to_keep=0)


def test_both_are_to_be_written():
    class Nameless(Exporter):
        def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
            return None

    class Idle(Exporter):
        name = "idle"

    for kind, missing in [(Nameless, "name"), (Idle, "export")]:
        with pytest.raises(TypeError, match=f"abstract method '?{missing}"):
            kind()


def test_a_class_attribute_is_a_name():
    class Own(Exporter):
        name = "own"

        def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
            return f"{export_path}/{eval_result['global_step']}"

    assert Own().name == "own"
    assert Own().export(None, "base", "checkpoint", {"global_step": 3}, True) == "base/3"
