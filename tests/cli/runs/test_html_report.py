import json
import math
import re

from tpack.callbacks.monitors.run_status import write_run
from tpack.cli.runs.html_report import page_of

ENTRIES = [{"epoch_num": 1, "global_step": 5, "cost": 2.0}, {"epoch_num": 2, "global_step": 10, "cost": math.nan}]


def test_all_is_in_the_page_and_nothing_is_asked_for(tmp_path):
    write_run(
        str(tmp_path),
        {
            "state": "failed",
            "command": "python </script><b>",
            "began": "2024-11-23T09:00:00+00:00",
            "versions": {"a": "1"},
            "config": {"b": [1, 2]},
            "progress": {"epoch": 3, "epoch_secs": 90.0},
        },
    )
    (tmp_path / "log.log").write_text("[11-23 09:00:01 @x.py:1] WRN beware\n")
    page = page_of({"a": (str(tmp_path), ENTRIES), "b": (str(tmp_path / "none"), ENTRIES[:1])}, ["cost"], "step")
    (text,) = re.findall(r'<script type="application/json" id="content">(.*?)</script>', page, re.DOTALL)
    content = json.loads(text)
    assert (content["axis"], content["stats"]) == ("step", ["cost"])
    first, second = content["runs"]
    assert first["curves"] == {"cost": [[1, 5, 2.0], [2, 10, None]]}
    assert first["command"] == "python </script><b>"
    assert (first["state"], first["epoch"], first["epoch_time"]) == ("failed", 3, "1 minute 30 seconds")
    assert (first["began"], second["state"]) == ("2024-11-23T09:00:00+00:00", "unknown")
    assert (first["versions"], first["config"], second["config"]) == ({"a": "1"}, {"b": "1, 2"}, {})
    assert first["warnings"] == ["11-23 09:00:01 beware"]
    assert (second["label"], second["command"], second["images"]) == ("b", "", [])
    assert not re.findall(r"(?:src|href)=|https?://(?!www\.w3\.org/2000/svg)|fetch\(|import ", page.replace(text, ""))


def test_the_curves_of_tpack_scale_are_shown_where_they_are_beside_the_run(tmp_path):
    (tmp_path / "scale.png").write_bytes(b"\x89PNG picture")
    page = page_of({"a": (str(tmp_path), ENTRIES)}, ["cost"], "step")
    (text,) = re.findall(r'<script type="application/json" id="content">(.*?)</script>', page, re.DOTALL)
    (image,) = json.loads(text)["runs"][0]["images"]
    assert image["name"] == "scale.png"
    assert image["src"].startswith("data:image/png;base64,")
