"""The variables of strategies: mirrored ones, and those local to a tower."""

__all__: list[str] = []
