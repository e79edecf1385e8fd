"""Workers that do not agree are told what differs, and who has what."""

import sys

import pytest

from tests.helpers.peer_groups import joined, outcome, together
from tpack.errors import ClusterError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.consistency import check_consistency, program
from tpack.multi_worker.cluster.peers import connect_peers


def test_those_that_agree_exchange_digests_alone():
    with joined() as peers:
        fields = {"batch size": 64, "seed": None, "variables": {"w": "(3, 4) float32"}, "files": {}}
        assert together(peers, lambda one: check_consistency(one, fields)) == [None] * 3
        assert together(peers, lambda one: one._number) == [1, 1, 1]
    check_consistency(connect_peers(ClusterMember()), {"batch size": 64})


def test_what_differs_is_listed_in_all_with_who_has_what():
    told = [
        {"batch size": 64, "variables": {"w": "(3, 4) float32", "b": "(4,) float32"}, "optimizer": "Adam"},
        {"batch size": 32, "variables": {"w": "(3, 5) float32", "b": "(4,) float32"}, "optimizer": "Adam"},
        {"batch size": 64, "variables": {"w": "(3, 4) float32"}, "optimizer": "Adam", "ema": "x" * 200},
    ]
    with joined() as peers:
        errors = together(peers, lambda one: check_consistency(one, told[one.rank]))
    assert {type(error) for error in errors} == {ClusterError}
    assert {str(error) for error in errors} == {
        "the workers do not agree; expected the same in all of them:"
        "\n    batch size: 64 in workers 0, 2, 32 in worker 1"
        f'\n    ema: nothing in workers 0, 1, "{"x" * 76}... in worker 2'
        '\n    variables: b: "(4,) float32" in workers 0, 1, nothing in worker 2'
        '\n    variables: w: "(3, 4) float32" in workers 0, 2, "(3, 5) float32" in worker 1'
    }


@pytest.mark.parametrize(
    ("orders", "words"),
    [
        ([["u", "v"], ["v", "u"], ["u", "v"]], 'number 1: "u" in workers 0, 2, "v" in worker 1'),
        ([["u", "v"], ["u", "v"], ["u", "v", "w"]], 'number 3: nothing in workers 0, 1, "w" in worker 2'),
    ],
    ids=["order", "length"],
)
def test_of_lists_the_first_place_that_differs_is_shown(orders, words):
    with joined() as peers:
        errors = together(peers, lambda one: check_consistency(one, {"names": orders[one.rank]}))
    assert all(str(error).endswith(f":\n    names, {words}") for error in errors)


def test_of_many_differences_the_first_are_shown():
    with joined(2) as peers:
        told = {str(number): number for number in range(100, 130)}
        error = together(peers, lambda one: check_consistency(one, told if one.rank else {}))[0]
    assert str(error).count("\n") == 21
    assert str(error).endswith("\n    119: nothing in worker 0, 119 in worker 1\n    and 10 more")


def test_the_program_is_known_by_its_files_and_versions(tmp_path, monkeypatch):
    script, module, other = tmp_path / "train.py", tmp_path / "lib" / "model.py", tmp_path / "unused.py"
    module.parent.mkdir()
    for path in (script, module, other):
        path.write_text("x = 1\n", encoding="utf-8")
    fake = type(sys)("__main__")
    fake.__file__ = str(script)
    monkeypatch.setitem(sys.modules, "__main__", fake)
    loaded = type(sys)("model")
    loaded.__file__ = str(module)
    monkeypatch.setitem(sys.modules, "model_of_the_test", loaded)
    found = program()
    assert found["files"].keys() == {"train.py", "lib/model.py"}
    assert found["versions"].keys() == {"python", "tpack", "numpy", "tensorflow"}
    module.write_text("x = 2\n", encoding="utf-8")
    changed = program()
    assert changed["files"]["lib/model.py"] != found["files"]["lib/model.py"]
    assert changed["files"]["train.py"] == found["files"]["train.py"]
    monkeypatch.delattr(fake, "__file__")
    assert program()["files"] == {}


def test_what_is_no_json_is_refused_before_others_wait():
    with joined(2) as peers:
        for one in peers:
            with pytest.raises(TypeError, match="not JSON serializable"):
                check_consistency(one, {"w": object()})
        assert outcome(peers[0].check) is None
