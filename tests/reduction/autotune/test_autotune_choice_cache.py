import json
from pathlib import Path

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tests.helpers.tower_grads import cpu_devices
from tpack.reduction.autotune.autotune import ChoiceCache, cache_directory, make_question
from tpack.reduction.autotune.measure import Measurement, MeasuringOptions, make_workload

ROWS = (Measurement("xring", (0.1, 0.2), 5), Measurement("nccl", error="killed"))
QUESTION = {"devices": ("a", "b"), "shapes": [[1], []]}


def question(num_towers=2, shapes=((3,), ()), dtypes="float32", names=("xring",), **options):
    return make_question(make_workload(cpu_devices(num_towers), shapes, dtypes), names, MeasuringOptions(**options))


@pytest.fixture
def cache(tmp_path):
    return ChoiceCache(str(tmp_path / "deep" / "down"))


def test_what_is_stored_is_loaded(cache):
    assert cache.load(QUESTION) is None
    cache.store(QUESTION, ROWS)
    assert cache.load(QUESTION) == ROWS
    assert cache.load({**QUESTION, "shapes": [[2], []]}) is None
    cache.store(QUESTION, ROWS[:1])
    assert cache.load(QUESTION) == ROWS[:1]


def test_nothing_else_is_left_in_the_directory(cache):
    cache.store(QUESTION, ROWS)
    assert [str(path) for path in Path(cache.path(QUESTION)).parent.iterdir()] == [cache.path(QUESTION)]


def test_write_only_answers_nothing(tmp_path):
    ChoiceCache(str(tmp_path)).store(QUESTION, ROWS[:1])
    again = ChoiceCache(str(tmp_path), is_write_only=True)
    assert again.load(QUESTION) is None
    again.store(QUESTION, ROWS)
    assert ChoiceCache(str(tmp_path)).load(QUESTION) == ROWS


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:40],
        lambda text: "[]",
        lambda text: "{}",
        lambda text: text.replace("xring", "x").replace('"name"', '"nome"'),
        lambda text: text.replace('"devices": [', '"devices": ["c", '),
        lambda text: json.dumps({**json.loads(text), "rows": 3}),
        lambda text: text.encode("utf-16"),
    ],
)
def test_a_damaged_file_is_a_warning_and_is_written_anew(cache, damage):
    cache.store(QUESTION, ROWS)
    path = Path(cache.path(QUESTION))
    damaged = damage(path.read_text(encoding="utf-8"))
    path.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
    with captured_log() as lines:
        assert cache.load(QUESTION) is None
    assert [str(path) in line and "is repeated" in line for line in lines] == [True]
    cache.store(QUESTION, ROWS)
    assert cache.load(QUESTION) == ROWS


def test_where_nothing_can_be_written_a_warning_says_so(tmp_path):
    (tmp_path / "file").touch()
    with captured_log() as lines:
        ChoiceCache(str(tmp_path / "file" / "below")).store(QUESTION, ROWS)
    assert len(lines) == 1
    assert "cannot be stored" in lines[0]


def test_the_directory_is_read_from_the_environment_when_it_is_needed(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("TPACK_CACHE", raising=False)
    assert cache_directory() == "/home/somebody/.cache/tpack"
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_directory() == "/caches/tpack"
    monkeypatch.setenv("TPACK_CACHE", "~/own")
    assert cache_directory() == "/home/somebody/own"
    assert ChoiceCache().path(QUESTION).startswith("/home/somebody/own/reduction/")


def test_a_question_is_another_one_where_the_answer_may_be(monkeypatch):
    same = [question(), question()]
    others = [
        question(3),
        question(shapes=((3,), (1,))),
        question(dtypes="float16"),
        question(names=("xring", "rechd")),
        question(session_config=tf.ConfigProto(intra_op_parallelism_threads=1)),
    ]
    monkeypatch.setattr(tf, "__version__", "2.99.0")
    others.append(question())
    assert same[0] == same[1]
    assert len({json.dumps(asked, sort_keys=True) for asked in [same[0], *others]}) == 7
