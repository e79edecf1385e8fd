import pytest

from tests.helpers.worker_job import run_workers
from tpack.cli.cluster import describe, draw
from tpack.cli.main import main
from tpack.multi_worker.scaling.link_benchmark import ClusterSpeed, LinkSpeed
from tpack.multi_worker.scaling.network import NetworkSpeed

SPEED = ClusterSpeed(
    (
        LinkSpeed(0, 1, latency_secs=2e-4, there=1.2e9, back=1.1e9, all_reduce=0.8e9),
        LinkSpeed(0, 2, latency_secs=9e-4, there=0.3e9, back=0.9e9, all_reduce=0.2e9),
        LinkSpeed(1, 2, latency_secs=3e-4, there=1.0e9, back=1.3e9, all_reduce=0.4e9),
    ),
    all_reduce=0.5e9,
)


def test_the_chief_prints_a_table_and_draws_a_picture(tmp_path):
    arguments = ["cluster", "check", "--megabytes", "0.2", "--runs", "1", "--timeout", "30"]
    arguments += ["--out", "heat.png", "--json", "network.json"]

    outcomes = run_workers("tpack.cli.main.main", 2, tmp_path, arguments={"arguments": arguments})

    assert [(outcome.code, outcome.value) for outcome in outcomes] == [(0, 0), (0, 0)], outcomes[0].text
    assert "0 - 1" in outcomes[0].text
    assert "all-reduce of all 2 workers" in outcomes[0].text
    assert "heat.png: the same as a heat map" in outcomes[0].text
    assert "all-reduce" not in outcomes[1].text
    assert (tmp_path / "heat.png").read_bytes().startswith(b"\x89PNG")
    assert "network.json: the same for tpack scale" in outcomes[0].text
    assert NetworkSpeed.read(str(tmp_path / "network.json")).describe() in outcomes[0].text


def test_the_table_has_each_pair_and_names_the_slowest():
    lines = describe(SPEED, ["a:1", "b:2", "c:3"]).splitlines()
    assert lines[3].split() == ["0", "-", "2", "a:1", "-", "c:3", "900", "0.30", "0.90", "0.20"]
    assert lines[-2:] == [
        "all-reduce of all 3 workers: 0.50 GB/s of gradients",
        "slowest pair: 0 and 2, 0.50 of the median pair",
    ]


def test_the_heat_map_has_a_number_for_each_direction_and_darker_cells_where_it_is_slower():
    bandwidth, latency = draw(SPEED, 3).axes
    found = {text.get_position(): text for text in bandwidth.texts}
    # Columns stand before rows here.
    assert {place: text.get_text() for place, text in found.items()} == {
        (1, 0): "1.20",
        (0, 1): "1.10",
        (2, 0): "0.30",
        (0, 2): "0.90",
        (2, 1): "1.00",
        (1, 2): "1.30",
    }
    assert [found[place].get_color() for place in [(2, 0), (1, 2)]] == ["white", "#333333"]
    shown = {text.get_position(): text.get_text() for text in latency.texts}
    assert shown[2, 0] == shown[0, 2] == "900"
    for panel in (bandwidth, latency):
        image = panel.images[0]
        slow, fast = (
            sum(image.cmap(image.norm(image.get_array()[row, column]))[:3]) for row, column in [(0, 2), (0, 1)]
        )
        assert slow < fast


def test_the_heat_map_of_many_workers_has_a_scale_instead_of_numbers():
    size = 20
    pairs = [LinkSpeed(a, b, 1e-4, 1e9, 1e9, 1e9) for a in range(size) for b in range(a + 1, size)]
    figure = draw(ClusterSpeed(tuple(pairs), 1e9), size)
    assert len(figure.axes) == 4
    assert not figure.axes[0].texts


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--out", "heat.bmp"], 2, "--out got 'heat.bmp': expected a file that ends in one of .png, .svg, .pdf"),
        (["--megabytes", "0"], 2, "megabytes"),
        ([], 1, "measure_links got one worker"),
    ],
)
def test_what_cannot_be_checked_is_an_error(arguments, code, words, capsys):
    assert main(["cluster", "check", *arguments]) == code
    assert words in capsys.readouterr().err
