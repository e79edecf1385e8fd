"""What is to be said of a program that others wrote so that it can be run here: a `Recipe`.

Recipes ask for small models and few steps where the program has options for it; an `Edit` says what has none. No line
of theirs is in a recipe but what an edit looks for.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.trials.outside_data import Maker


@dataclass(frozen=True)
class Edit:
    """A change in one file of a copy.

    Args:
        path: the file, below the folder; a glob pattern.
        pattern: a regular expression of what is replaced, wherever it stands.
        replacement: what stands there instead.
        why: under what the report counts it: "size" for what makes it small, or what took the old spelling away.
    """

    path: str
    pattern: str
    replacement: str
    why: str = "size"

    def apply(self, folder: Path) -> int:
        """Change the files of a copy, and return how many places were changed."""
        total = 0
        for path in sorted(folder.glob(self.path)):
            changed, number = re.subn(self.pattern, self.replacement, path.read_text(), flags=re.MULTILINE)
            path.write_text(changed)
            total += number
        if total == 0:
            raise LookupError(f"{self.path} has nothing like {self.pattern!r}")
        return total


@dataclass(frozen=True)
class Recipe:
    """What to run of a repository.

    Args:
        repository: the owner's name, a slash, and the name.
        trains: what it trains, in a few words.
        command: the script below `folder` and its arguments; ``-m`` and a module are possible.
        steps: how many steps are wanted; after three times as many the program is ended.
        part: what tells this recipe from others of the same repository.
        folder: the folder, below the copy, that the program is run in.
        data: what makes its data.
        edits: what is to be changed besides import lines.
        before: commands that are run first, in the same way, such as one that counts the words of the data.
        python_2: patterns of files that 2to3 rewrites first, where Python 2 is more than ``print``.
        python_path: folders, below the copy, that modules are looked for in.
        seconds: how long all of it may take.
        commit: the commit that was run last; the report says which one the folder has.
    """

    repository: str
    trains: str
    command: str
    steps: int = 10
    part: str = ""
    folder: str = "."
    data: tuple[Maker, ...] = ()
    edits: tuple[Edit, ...] = ()
    before: tuple[str, ...] = ()
    python_2: tuple[str, ...] = ()
    python_path: tuple[str, ...] = ()
    seconds: float = 300
    commit: str = ""
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.repository}{self.part and ':'}{self.part}")
