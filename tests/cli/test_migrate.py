"""``tpack migrate``: files before and after, what is said of them, and what is left as it is."""

import os
import re
import subprocess
import sys

import pytest

from tests.helpers.source import ROOT
from tpack.cli.main import main

BEFORE = "import tensorflow as tf  # why\nfrom tensorpack import *\n\n\ndef f(x):\n    return tf.layers.dense(x, 3)\n"
AFTER = BEFORE.replace("tensorflow as", "tpack.tf1 as").replace("tensorpack", "tpack")


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "train.py").write_text(BEFORE)
    (tmp_path / "same.py").write_text("import os\n")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "train.py").write_text(BEFORE)
    return tmp_path


def test_files_are_written_in_place_and_a_second_time_nothing_changes(project, capsys):
    assert main(["migrate", "."]) == 0
    assert (project / "inner" / "train.py").read_text() == AFTER
    assert (project / ".hidden" / "train.py").read_text() == BEFORE
    assert capsys.readouterr().out == (
        "inner/train.py:1: import tpack.tf1 as tf\n"
        "inner/train.py:2: from tpack import *\n"
        "2 file(s): changed 1, 0 line(s) to look at, 0 could not be migrated\n"
    )
    assert main(["migrate", ".", "--check"]) == 0
    assert main(["migrate", "."]) == 0
    assert (project / "inner" / "train.py").read_text() == AFTER


def test_modules_that_older_stars_gave_are_imported_where_they_are_used(project):
    uses = "fs.mkdir_p('a')\nserialize = 3\nserialize.x\nsummary.add_moving_summary\n"
    source = f"from tensorpack import *\n\n{uses}"
    (project / "same.py").write_text(source)
    assert main(["migrate", "same.py"]) == 0
    wanted = source.replace("from tensorpack import *", "from tpack import *\nfrom tpack.utils import fs")
    assert (project / "same.py").read_text() == wanted
    assert main(["migrate", "same.py", "--check"]) == 0


def test_a_file_that_gives_tensorflow_by_a_star_gives_what_is_needed(project):
    (project / "ops.py").write_text("import tensorflow as tf\n")
    (project / "net.py").write_text("import tensorflow as tf\nfrom ops import *\ntf.contrib.slim.conv2d\n")
    assert main(["migrate", "ops.py", "net.py"]) == 0
    assert (project / "ops.py").read_text() == "import tpack.tf1 as tf\n"
    assert main(["migrate", "ops.py", "net.py", "--check"]) == 0


def test_functions_that_older_stars_gave_are_imported_where_they_are_used(project, capsys):
    source = "from tensorpack import *\n\nwith change_gpu(0):\n    print(get_nr_gpu())\n"
    (project / "same.py").write_text(source)
    assert main(["migrate", "same.py"]) == 0
    imports = "".join(f"from tpack.utils.gpu import {name}\n" for name in ("change_gpu", "get_nr_gpu"))
    wanted = source.replace("from tensorpack import *\n", f"from tpack import *\n{imports}")
    assert (project / "same.py").read_text() == wanted
    assert "is not there" not in capsys.readouterr().out


@pytest.mark.parametrize(("option", "code"), [("--check", 1), ("--diff", 0)])
def test_check_and_diff_write_nothing(project, capsys, option, code):
    assert main(["migrate", "inner", option]) == code
    assert (project / "inner" / "train.py").read_text() == BEFORE
    out, err = capsys.readouterr()
    assert "would change 1" in (out + err)
    assert ("+import tpack.tf1 as tf  # why\n" in out) == (option == "--diff")
    assert ("could not be" in out) == (option == "--check")


def test_python_2_is_said_and_left_while_others_are_done(project, capsys):
    (project / "old.py").write_text("import tensorflow as tf\nprint 'a'\n")
    (project / "ranges.py").write_text("for i in f(xrange):\n    pass\n")
    assert main(["migrate", "."]) == 1
    out, err = capsys.readouterr()
    assert "old.py: line 2 is not Python 3; use 2to3 first if it is Python 2" in err
    assert "ranges.py:1: LOOK: xrange is Python 2's; use 2to3" in out
    assert (project / "old.py").read_text() == "import tensorflow as tf\nprint 'a'\n"
    assert (project / "inner" / "train.py").read_text() == AFTER


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "+".join(["1"] * 20_000),
        "x = " + "(" * 5000 + ")" * 5000,
        "x = " + "-" * 20_000 + "1",
        "x = a" + ".b" * 5000,
        "if a:\n    pass\n" + "elif a:\n    pass\n" * 3000,
    ],
    ids=["sum", "parentheses", "signs", "attributes", "branches"],
)
def test_what_is_nested_too_deep_is_said_and_left_while_others_are_done(project, capsys, text):
    source = f"import tensorflow as tf\n{text}\n"
    (project / "deep.py").write_text(source)
    assert main(["migrate", "."]) == 1
    assert re.search("^tpack migrate: deep.py: .*(expected|use)", capsys.readouterr().err)
    assert (project / "deep.py").read_text() == source
    assert (project / "inner" / "train.py").read_text() == AFTER


def test_a_source_above_the_limit_is_said_and_left(project, capsys, monkeypatch):
    monkeypatch.setattr("tpack.cli.migrate._MOST_BYTES", 200)
    (project / "large.py").write_text("import tensorpack\n" * 20)
    assert main(["migrate", "."]) == 1
    assert "large.py has 360 bytes: expected at most 200" in capsys.readouterr().err
    assert (project / "inner" / "train.py").read_text() == AFTER


def test_ends_of_lines_encodings_permissions_and_links_stay(project):
    target = project / "train.py"
    target.write_bytes("# -*- coding: latin-1 -*-\r\n# \xe9\r\nimport tensorpack\r\n".encode("latin-1"))
    target.chmod(0o755)
    (project / "link.py").symlink_to("train.py")
    assert main(["migrate", "link.py"]) == 0
    assert target.read_bytes() == "# -*- coding: latin-1 -*-\r\n# \xe9\r\nimport tpack\r\n".encode("latin-1")
    assert (target.stat().st_mode & 0o777, os.path.islink("link.py")) == (0o755, True)


@pytest.mark.parametrize("path", ["nowhere.py", "nowhere", ".hidden/none", "note.txt"])
def test_paths_that_are_no_sources_are_refused_before_any_is_written(project, capsys, path):
    (project / "note.txt").write_text("")
    assert main(["migrate", "inner", path]) == 2
    assert f"got the path {path}: expected a Python file" in capsys.readouterr().err
    assert (project / "inner" / "train.py").read_text() == BEFORE


def test_a_directory_without_sources_is_refused(project, capsys):
    (project / "empty").mkdir()
    assert main(["migrate", "empty"]) == 2
    assert "expected another Python file" in capsys.readouterr().err


def test_without_libcst_it_says_what_to_install(project, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "tpack.cli.migrating.rewriter", raising=False)
    monkeypatch.setitem(sys.modules, "libcst", None)
    assert main(["migrate", "inner"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("tpack migrate: this needs the package 'libcst'")
    assert err.endswith("install it with \"pip install 'tpack[migrate]'\"\n")


def test_help_loads_no_libcst_and_migrating_no_tensorflow(project):
    code = (
        "import sys; from tpack.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print('loaded', *sorted({'libcst', 'tensorflow'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for arguments, wanted in [(["migrate", "--help"], "loaded"), (["migrate", "inner"], "loaded libcst")]:
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, wanted), done.stderr
