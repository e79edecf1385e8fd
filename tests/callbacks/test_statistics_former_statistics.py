import json
from types import SimpleNamespace

from tests.helpers.log_lines import captured_log
from tpack.callbacks.statistics import former_values

ENTRIES = [
    {"epoch_num": epoch, "global_step": 10 * epoch, "error": float(epoch), **({"rare": 1.0} if epoch == 2 else {})}
    for epoch in range(1, 6)
]


def at(epoch, step):
    return SimpleNamespace(starting_epoch=epoch, global_step=step)


def test_values_from_before_this_run_are_found(log_dir):
    (log_dir / "stat.json").write_text(json.dumps(ENTRIES))
    assert former_values(at(4, 30), "error") == [1.0, 2.0, 3.0]
    assert former_values(at(4, 40), "error") == [1.0, 2.0, 3.0, 4.0]
    assert former_values(at(4, 30), "rare") == [1.0]
    assert former_values(at(4, 30), "unknown") == []
    assert former_values(at(1, 0), "error") == []


def test_without_a_directory_or_a_file_there_are_none(tmp_path):
    assert former_values(at(4, 30), "error") == []


def test_without_a_file_there_are_none(log_dir):
    assert former_values(at(4, 30), "error") == []


def test_a_damaged_file_is_told(log_dir):
    (log_dir / "stat.json").write_text("[{]")
    with captured_log() as lines:
        assert former_values(at(4, 30), "error") == []
    assert "The former values of 'error' are not known" in lines[0]
