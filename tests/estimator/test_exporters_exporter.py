"""An exporter has a name and an export, both of its own."""

import pytest

from tpack.estimator.exporters import Exporter


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
