"""The setting of the C library that new workers get."""

import platform

import pytest

from tpack.dataflow.parallel.workers.child import with_streaming_stores, without_streaming_stores

OURS = "glibc.cpu.x86_non_temporal_threshold=0x400000"
OTHER = "glibc.malloc.arena_max=1"


@pytest.fixture(autouse=True)
def x86(monkeypatch):
    """Be a machine that the setting is for."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")


@pytest.mark.parametrize(
    ("before", "during"),
    [
        ({}, {"GLIBC_TUNABLES": OURS}),
        ({"A": "b"}, {"A": "b", "GLIBC_TUNABLES": OURS}),
        ({"GLIBC_TUNABLES": OTHER}, {"GLIBC_TUNABLES": f"{OTHER}:{OURS}"}),
    ],
)
def test_worker_gets_the_setting_and_passes_it_on_to_nobody(before, during):
    variables = with_streaming_stores(before)
    assert variables == during
    without_streaming_stores(variables)
    assert variables == before


def test_setting_of_the_user_is_kept():
    before = {"GLIBC_TUNABLES": "glibc.cpu.x86_non_temporal_threshold=0x1000000"}
    variables = with_streaming_stores(before)
    assert variables == before
    without_streaming_stores(variables)
    assert variables == before


def test_other_machines_are_left_alone(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert with_streaming_stores({"A": "b"}) == {"A": "b"}
