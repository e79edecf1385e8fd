"""Build the models of all examples and scripts on four towers, by copy and without, and compare the graphs.

    python -m tests.trials.copied_towers [MODEL...]

It ends with 1 if a model is copied or not against what is known, or if the two graphs of one that is copied differ.
"""

import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tests.helpers.copied_models import (  # noqa: E402
    COPIED_IF_SHARED,
    MODELS,
    NOT_COPIED,
    reason_or_difference,
)
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder  # noqa: E402
from tpack.graph_builder.shared import SyncMultiGPUParameterServerBuilder  # noqa: E402

BUILDERS = {
    "replicated": lambda how: SyncMultiGPUReplicatedBuilder(4, tower_building=how),
    "parameter server": lambda how: SyncMultiGPUParameterServerBuilder(4, tower_building=how),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"default: all of {', '.join(MODELS)}")
    names = parser.parse_args().models or list(MODELS)
    wrong = copied = 0
    for kind, builder in BUILDERS.items():
        for name in names:
            reason, difference = reason_or_difference(MODELS[name], builder)
            is_copied = name not in NOT_COPIED or (kind == "parameter server" and name in COPIED_IF_SHARED)
            is_known = not reason if is_copied else NOT_COPIED[name] in reason
            wrong += bool(difference) or not is_known
            copied += not reason
            print(f"{kind}, {name}: {reason or difference[:5] or 'copied, and the same'}", flush=True)
    print(f"{copied} of {len(names) * len(BUILDERS)} copied; {wrong} not as they should be")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
