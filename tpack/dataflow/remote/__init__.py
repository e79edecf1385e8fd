"""Data points from other machines, over ZeroMQ."""

__all__: list[str] = []
