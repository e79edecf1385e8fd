"""Callbacks that tensorpack had."""

import pdb  # noqa: T100

import pytest

from tpack.callbacks.monitors.experiment_tracker import CometMonitor
from tpack.errors import ConfigError
from tpack.legacy.code.callbacks import CometMLMonitor, InjectShell


def test_a_shell_opens_where_the_file_exists_and_the_file_goes(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(pdb, "set_trace", lambda: opened.append(True))
    file = tmp_path / "pause"
    callback = InjectShell(str(file), shell="pdb")
    monkeypatch.setattr(InjectShell, "trainer", None)
    callback.trigger()
    assert opened == []
    file.touch()
    callback.trigger()
    callback.after_train()
    assert opened == [True]
    assert not file.exists()
    with pytest.raises(ConfigError, match="got shell='bash': expected 'ipython' or 'pdb'"):
        InjectShell(shell="bash")


def test_the_older_comet_monitor_takes_the_arguments_of_an_experiment(monkeypatch):
    given = []
    monkeypatch.setattr(CometMonitor, "__init__", lambda self, *args, **kwargs: given.append((args, kwargs)))
    CometMLMonitor(tags=["a"], project_name="digits", workspace="us", auto_metric_logging=False)
    assert given == [(("digits",), {"workspace": "us", "tags": ["a"]})]
