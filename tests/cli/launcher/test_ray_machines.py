"""What is asked of a Ray cluster; jobs on a real one are in ``tests/test_ray.py``."""

import pytest

from tpack.cli.launcher.ray_machines import check_resources, parse_resources
from tpack.cli.main import main
from tpack.errors import ConfigError


def test_resources_are_read():
    assert parse_resources("CPU=4, GPU=0.5,accelerator_type:A100=1") == {
        "CPU": 4,
        "GPU": 0.5,
        "accelerator_type:A100": 1,
    }


@pytest.mark.parametrize("text", ["", "CPU", "CPU=", "CPU=-1", "CPU=1,CPU=2", "CPU=1,,GPU=1", "4"])
def test_resources_that_are_none_are_refused(text):
    with pytest.raises(ConfigError, match="wanted each resource once, with a number, as in CPU=4,GPU=1"):
        parse_resources(text)


@pytest.mark.parametrize("wrong", [{"CPU": True}, {"CPU": "1"}, {"": 1}, {1: 1}, {"CPU": float("inf")}])
def test_what_is_no_resource_is_refused(wrong):
    with pytest.raises(ConfigError, match="wanted a resource's name, and a number"):
        check_resources("a function", wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--resources", "CPU=1"], "--resources says what each worker needs of Ray: wanted --on ray too"),
        (["--on", "ray", "--hosts", "a:2"], "--hosts names machines, and --on ray leaves them to Ray"),
        (["--on", "ray", "--resources", "CPU=0"], "a worker needs nothing: wanted resources such as {'CPU': 1}"),
        (["--on", "ray", "--resources", "CPU"], "--resources is 'CPU'"),
    ],
)
def test_options_that_cannot_be_on_ray_are_refused(tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.py").touch()
    assert main(["launch", *options, "s.py"]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["s.py"]
