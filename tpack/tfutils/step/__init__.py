"""What runs a step: the session with hooks, its cached callables, its executor."""

__all__: list[str] = []
