"""The command ``tpack selftest``, on logical devices."""

import json

import pytest

from tpack.cli.main import main


def test_a_right_machine_has_a_report_a_file_and_a_picture(tmp_path, capsys):
    figures, picture = tmp_path / "report.json", tmp_path / "report.png"
    only = ["--only", "memory", "arithmetic", "copies", "images on 1"]
    assert (
        main(
            ["selftest", "--devices", "2", "--check-limit", "300", *only, "--json", str(figures), "--out", str(picture)]
        )
        == 0
    )
    printed, progress = capsys.readouterr()
    assert printed.startswith("```\ntpack ")
    assert "selftest: all is right; 5 checks in" in printed
    assert "4 right, 1 skipped" in printed
    assert "[1/5] devices: right" in progress
    assert "[2/5] memory: skipped" in progress
    found = json.loads(figures.read_text())
    assert found["all_is_right"] is True
    assert found["machine"]["devices"] == ["/device:CPU:0", "/device:CPU:1"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_machine_that_is_not_right_ends_with_1(monkeypatch, capsys):
    # The driver lists a GPU that TensorFlow does not see.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert main(["selftest", "--devices", "1", "--only", "arithmetic"]) == 1
    printed, progress = capsys.readouterr()
    assert "not all is right (devices)" in printed
    assert "to set or to try: TensorFlow lacks NVIDIA's libraries: pip install 'tensorflow[and-cuda]'" in printed
    assert "[1/2] devices: wrong" in progress
    assert "the driver or CUDA_VISIBLE_DEVICES lists 1 GPU(s), TensorFlow sees 0" in progress


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--devices", "0"], "--devices got 0: expected a number above 0"),
        (["--limit", "-1"], "--limit got -1.0: expected"),
        (["--check-limit", "nan"], "--check-limit got nan: expected"),
        (
            ["--only", "images on 8", "never"],
            "--only got 'never': expected the beginning of devices, memory, arithmetic,",
        ),
        (["--out", "a.doc"], "expected a file that ends in one of"),
    ],
)
def test_wrong_arguments_are_refused(capsys, arguments, message):
    assert main(["selftest", *arguments]) == 2
    assert message in capsys.readouterr().err
