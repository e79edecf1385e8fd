"""Worker processes: how they start, what they run, how they end."""

__all__: list[str] = []
