"""Build the models of all examples and scripts on four towers, by copy and without, and compare the graphs.

    python -m tests.trials.copied_towers [MODEL...]

It ends with 1 if a model is copied or not against what is known, or if the two graphs of one that is copied differ.
"""

import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tests.helpers.copied_models import COPIED_IF_SHARED, MODELS, NOT_COPIED, build_model, reason_or_difference  # noqa: E402
from tests.helpers.copied_programs import PROGRAMS, build_program  # noqa: E402
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder  # noqa: E402
from tpack.graph_builder.towers import SyncMultiGPUParameterServerBuilder  # noqa: E402

BUILDERS = {
    "replicated": lambda how: SyncMultiGPUReplicatedBuilder(4, tower_building=how),
    "parameter server": lambda how: SyncMultiGPUParameterServerBuilder(4, tower_building=how),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    everything = [*MODELS, *PROGRAMS]
    parser.add_argument("models", nargs="*", help=f"default: all of {', '.join(everything)}")
    names = parser.parse_args().models or everything
    ways = [(kind, name) for name in names for kind in (BUILDERS if name in MODELS else [""])]
    wrong = copied = 0
    for kind, name in ways:
        is_wrong, is_copied = _tell(name, kind)
        wrong, copied = wrong + is_wrong, copied + is_copied
    print(f"{copied} of {len(ways)} copied; {wrong} not as they should be")
    return int(wrong > 0)


def _tell(name: str, kind: str) -> tuple[bool, bool]:
    """Print how a model is built by a kind of builder; return whether that is wrong, and whether it is copied."""
    if name in MODELS:
        reason, difference = reason_or_difference(lambda how: build_model(MODELS[name], BUILDERS[kind](how)))
    else:
        reason, difference = reason_or_difference(lambda how: build_program(PROGRAMS[name], how))
    is_copied = name not in NOT_COPIED or (kind == "parameter server" and name in COPIED_IF_SHARED)
    is_known = not reason if is_copied else NOT_COPIED[name] in reason
    print(f"{kind or 'as it is'}, {name}: {reason or difference[:5] or 'copied, and the same'}", flush=True)
    return bool(difference) or not is_known, not reason


if __name__ == "__main__":
    sys.exit(main())
