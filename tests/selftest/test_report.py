"""The report: verdict, what is wrong and what to set, figures, JSON and picture, from outcomes of eight GPUs."""

import json

import pytest

from tpack.cli.plot import save_figure
from tpack.selftest import report
from tpack.selftest.runner import NOT_RUN, RIGHT, SKIPPED, WRONG, Machine, Outcome

GPUS = Machine("GPU", ("/device:GPU:0", "/device:GPU:1"))


def outcomes(*more):
    rows = {
        name: {"ms": ms, "gigabytes_per_sec": 5.0, "share_of_best": 0.5} for name, ms in (("nccl", 2), ("xring", 9))
    }
    images = [("images on 1 device", 1, 100.0), ("images on 2 devices", 2, 150.0)]
    network = {"network": "ResNet-50", "pixels": 224, "batch": 64, "dtype": "float32"}
    return [
        Outcome("devices", RIGHT, "2 GPU(s)", figures={"environment": "Python  3.11"}, secs=3.0),
        Outcome("memory", SKIPPED, "no NVML"),
        Outcome("copies", RIGHT, "", figures={"gigabytes_per_sec": [[None, 20.1], [19.0, None]]}),
        Outcome("host copies", RIGHT, "", figures={"to_devices": [12.0, 11.0], "from_devices": [10.0, 9.0]}),
        Outcome(
            "all-reduce", RIGHT, "", figures={"megabytes": 102.4, "best_possible_ms": 1.0, "rows": rows}, advice="x"
        ),
        *(
            Outcome(each, RIGHT, "", figures={"count": n, "images_per_sec": rate, **network})
            for each, n, rate in images
        ),
        *more,
    ]


def test_a_right_machine_has_figures_and_advice():
    text = report.text_of(GPUS, outcomes())
    words = " ".join(text.split())
    assert text.startswith("```\ntpack ")
    assert text.endswith("\n```\n")
    assert "selftest: all is right; 7 checks in 3 s: 6 right, 1 skipped" in text
    assert "Python 3.11" in words
    assert "from \\ to 0 1" in words
    assert "20.1" in words
    assert "device from the host to the host" in words
    assert "All-reduce of 102 MB; 1.00 ms is the best possible" in words
    assert "nccl 2.00 5.00 0.50 xring 9.00" in words
    assert "2 150.0 0.75" in words
    assert "Faster: all-reduce: x images: 2 devices reach 75% of linear" in words
    assert "share the cores" not in words


def test_what_is_wrong_is_said_with_what_to_set():
    wrong = Outcome(
        "reducer: nccl", WRONG, "it hangs", proves="sums are right", advice="set NCCL_DEBUG=INFO", details="a\n" * 99
    )
    late = Outcome("checkpoint", NOT_RUN, "the time was over")
    text = report.text_of(GPUS, outcomes(wrong, late))
    assert "not all is right (reducer: nccl, checkpoint)" in text
    expected = (
        "WRONG: reducer: nccl\n  expected: sums are right\n  found: it hangs\n  to set or to try: set NCCL_DEBUG=INFO"
    )
    assert expected in text
    assert text.count("\n    a") == report._DETAIL_LINES
    assert "NOT RUN: checkpoint" in text
    assert json.loads(report.json_of(GPUS, outcomes(wrong)))["all_is_right"] is False


def test_a_machine_that_was_not_found_has_a_report():
    text = report.text_of(None, [Outcome("devices", WRONG, "ImportError", advice="install it")])
    assert "WRONG: devices" in text
    assert json.loads(report.json_of(None, []))["machine"] is None


def test_json_has_all():
    found = json.loads(report.json_of(GPUS, outcomes()))
    assert found["machine"] == {"kind": "GPU", "devices": list(GPUS.devices)}
    assert found["scaling"] == [[1, 100.0, 1.0], [2, 150.0, 0.75]]
    assert [each["name"] for each in found["outcomes"]] == [each.name for each in outcomes()]
    assert report.scaling(outcomes()[-1:]) == [(2, 150.0, None)]


@pytest.mark.parametrize(("some", "panels"), [(outcomes(), 4), (outcomes()[:2], 1)])
def test_pictures_have_a_panel_for_each_figure(tmp_path, some, panels):
    figure = report.draw(some)
    assert len(figure.axes) == panels
    save_figure(figure, str(tmp_path / "report.png"))
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
