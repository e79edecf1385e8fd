"""Programs that train on tables, games, sounds and graphs, and collections of examples.

See `tests.trials.outside_recipe`.
"""

from tests.trials.outside_data import folders, idx_digits, pickles, rows, text, tones, values
from tests.trials.outside_recipe import Edit, Recipe

# A stand-in for MPI with a single process.
MPI = """import numpy as np
class _World:
    def Get_size(self): return 1
    def Get_rank(self): return 0
    def Allreduce(self, x, buff, op=None): buff[...] = x
    def Bcast(self, x, root=0): pass
class MPI:
    COMM_WORLD = _World()
    SUM = MIN = MAX = None
"""
LIBROSA = """import wave
import numpy as np
from types import SimpleNamespace
def load(path, sr=None, mono=True):
    with wave.open(path) as file:
        return np.frombuffer(file.readframes(file.getnframes()), '<i2').astype(np.float32) / 32768, sr
core = SimpleNamespace(load=load, frames_to_samples=lambda frames: (0, np.asarray(frames)[-1:] * 512))
feature = SimpleNamespace(rmse=lambda y, frame_length: np.sqrt(np.mean(y ** 2)) * np.ones((1, len(y) // 512)))
"""
MULTI_AGENT = """import numpy as np
from gym import spaces
class MultiAgentEnv:
    n = 2
    def __init__(self, world, *functions):
        self.action_space = [spaces.Discrete(5)] * 2
        self.observation_space = [spaces.Box(-1.0, 1.0, (4,), np.float32)] * 2
        self.rng = np.random.RandomState(0)
    def reset(self):
        return [self.rng.normal(size=4) for _ in range(2)]
    def step(self, actions):
        return self.reset(), [float(a[0]) for a in actions], [False] * 2, {'n': []}
"""
SCENARIOS = """class Scenario:
    make_world = reset_world = reward = observation = lambda self, *args: None
def load(name):
    import types
    return types.SimpleNamespace(Scenario=Scenario)
"""
CENSUS = [
    "25, Private, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, Black, Male, 0, 0, 40, United-States,"
    " <=50K",
    "44, Private, 160323, Some-college, 10, Married-civ-spouse, Machine-op-inspct, Husband, Black, Male, 7688, 0, 40,"
    " United-States, >50K",
    "30, Self-emp-inc, 1, HS-grad, 9, Divorced, Sales, Unmarried, White, Female, 0, 0, 30, Mexico, <=50K",
]
MAPS = (Edit("deep_ctr/Model_pipeline/*.py", r"= map\((int|float), (.*)\)$", r"= list(map(\1, \2))", "Python 2"),)
DEVICES = (Edit("examples/6_MultiGPU/multigpu_cnn.py", r"'/gpu:\{\}'\.format\(i\)", "'/cpu:0'", "devices"),)

SQUEEZED = r"self.\1_buf[self.ptr] = np.squeeze(\2)"

TABLES = (
    *(
        Recipe(
            "lambdaji/tf_repos",
            f"{name} in an Estimator",
            f"{name}.py --task_type=train --learning_rate=0.0005 --optimizer=Adam --num_epochs=1 --batch_size=16"
            " --field_size=5 --feature_size=50 --deep_layers=8,8 --dropout=0.5,0.5 --log_steps=2 --num_threads=1"
            f" --model_dir=./model --data_dir=data/ {flags}",
            commit="b531ff12cdab",
            part=name,
            folder="deep_ctr/Model_pipeline",
            steps=10,
            data=tuple(
                text(
                    f"deep_ctr/Model_pipeline/data/{kind}.libsvm",
                    rows(
                        200,
                        lambda rng, _: [
                            rng.integers(0, 2),
                            *(f"{10 * k + rng.integers(0, 10)}:{rng.random():.3f}" for k in range(5)),
                        ],
                        separator=" ",
                    ),
                )
                for kind in ("tr1", "va1", "te1")
            ),
            edits=() if name == "DCN" else MAPS,
        )
        for name, flags in (("DeepFM", "--batch_norm=true"), ("DCN", "--cross_layers=2"), ("NFM", "--batch_norm=true"))
    ),
    Recipe(
        "Lapis-Hong/wide_deep",
        "wide and deep, with feature columns",
        "train.py --train_epochs 1 --batch_size 64",
        folder="python",
        steps=10,
        edits=(
            Edit(
                "python/lib/build_estimator.py",
                r"^from lib.joint import WideAndDeepClassifier",
                "",
                "a head's own parts",
            ),
            Edit("python/lib/build_estimator.py", r"map\(str, f_param\)", "list(map(str, f_param))", "Python 2"),
            Edit("python/lib/*.py", r"((?:self|csv_defaults)[\w.()]*)\.values\(\)", r"list(\1.values())", "Python 2"),
            Edit("python/lib/dataset.py", r"in features\.items\(\)", "in list(features.items())", "Python 2"),
            Edit(
                "python/lib/build_estimator.py",
                r"cross_feature_list:$",
                "((name, int(size), is_deep) for name, size, is_deep in cross_feature_list):",
                "sizes",
            ),
            Edit("python/lib/read_conf.py", r"yaml\.load\(", "yaml.safe_load(", "PyYAML"),
            Edit("python/train.py", r"build_custom_estimator\(", "build_estimator(", "a head's own parts"),
        ),
    ),
    Recipe(
        "GoogleCloudPlatform/cloudml-samples",
        "DNNLinearCombinedClassifier on the census",
        "-m trainer.task --train-files train.csv --eval-files train.csv --job-dir out --train-steps 20 --eval-steps 2"
        " --train-batch-size 8 --eval-batch-size 8",
        commit="efddc4a98981",
        part="estimator",
        folder="census/estimator",
        steps=20,
        python_path=("census/estimator",),
        data=(text("census/estimator/train.csv", CENSUS * 30),),
    ),
    Recipe(
        "GoogleCloudPlatform/cloudml-samples",
        "a custom Estimator on the census",
        "-m trainer.task --train-files train.csv --eval-files train.csv --job-dir out --train-steps 20 --eval-steps 2"
        " --train-batch-size 8 --eval-batch-size 8",
        commit="efddc4a98981",
        part="customestimator",
        folder="census/customestimator",
        steps=20,
        python_path=("census/customestimator",),
        data=(text("census/customestimator/train.csv", CENSUS * 30),),
    ),
    Recipe(
        "GoogleCloudPlatform/cloudml-samples",
        "the same in a MonitoredTrainingSession",
        "-m trainer.task --train-files train.csv --eval-files train.csv --job-dir out --train-steps 20 --eval-steps 2"
        " --train-batch-size 8 --eval-batch-size 8",
        commit="efddc4a98981",
        part="tensorflowcore",
        folder="census/tensorflowcore",
        steps=20,
        python_path=("census/tensorflowcore",),
        data=(text("census/tensorflowcore/train.csv", CENSUS * 30),),
    ),
    Recipe(
        "zhougr1993/DeepInterestNetwork",
        "an interest network",
        "train.py",
        commit="9765f96202f8",
        folder="din",
        steps=10,
        data=(
            pickles(
                "din/dataset.pkl",
                [(u, [1 + u % 7, 3], (u * 3) % 20, u % 2) for u in range(400)],
                [(u, [1 + u % 7, 3], ((u * 3) % 20, (u * 5) % 20)) for u in range(512)],
                [n % 5 for n in range(120)],
                (600, 120, 5),
            ),
            folders("din/save_path"),
        ),
        edits=(Edit("din/train.py", r"range\(50\)", "range(1)"),),
    ),
    Recipe(
        "tkipf/gcn",
        "a graph network on Cora",
        "train.py --epochs 12 --dataset cora",
        folder="gcn",
        python_path=(".",),
        steps=12,
    ),
)

GAMES = (
    *(
        Recipe(
            "openai/spinningup",
            f"{name} in a cart-pole",
            f"spinup/algos/tf1/{name}/{name}.py --env {env} --epochs 2 {flags}",
            part=name,
            python_path=(".",),
            commit="038665d62d56",
            steps=10,
            data=(text("mpi4py/__init__.py", MPI), text("torch.py", "")),
            edits=(
                Edit("spinup/__init__.py", r"from spinup\.algos\.pytorch.*", ""),
                Edit("spinup/algos/tf1/*/*.py", r"self\.(act|val|logp)_buf\[self\.ptr\] = (\w+)$", SQUEEZED, "numpy"),
                *(
                    (
                        Edit(f"spinup/algos/tf1/{name}/{name}.py", r"steps_per_epoch=4000", "steps_per_epoch=300"),
                        Edit(f"spinup/algos/tf1/{name}/{name}.py", r"start_steps=10000", "start_steps=100"),
                        Edit(f"spinup/algos/tf1/{name}/{name}.py", r"update_after=1000", "update_after=100"),
                    )
                    if name in ("sac", "td3", "ddpg")
                    else ()
                ),
            ),
        )
        for name, env, flags in (
            ("vpg", "CartPole-v1", "--cpu 1 --steps 200"),
            ("ppo", "CartPole-v1", "--cpu 1 --steps 200"),
            ("trpo", "CartPole-v1", "--cpu 1 --steps 200"),
            ("sac", "Pendulum-v1", "--hid 16"),
            ("td3", "Pendulum-v1", "--hid 16"),
        )
    ),
    Recipe(
        "openai/maddpg",
        "two agents",
        "experiments/train.py --batch-size 8 --max-episode-len 5 --num-episodes 80 --save-rate 20 --save-dir out/"
        " --num-units 8 --exp-name run --plots-dir curves/",
        commit="3ceefa0ada3f",
        python_path=(".",),
        steps=10,
        data=(
            text("multiagent/__init__.py", ""),
            text("multiagent/environment.py", MULTI_AGENT),
            text("multiagent/scenarios/__init__.py", SCENARIOS),
            text("multiagent/multi_discrete.py", "class MultiDiscrete:\n    pass\n"),
            folders("out", "curves"),
        ),
    ),
)

SOUNDS = (
    Recipe(
        "ibab/tensorflow-wavenet",
        "WaveNet",
        "train.py --data_dir sounds --logdir_root logs --num_steps 4 --sample_size 2000 --checkpoint_every 2"
        " --wavenet_params small.json --silence_threshold 0",
        commit="3c973c038c8c",
        steps=4,
        data=(
            text("librosa.py", LIBROSA),
            tones("sounds/p225_{:03d}.wav", 4),
            values(
                "small.json",
                {
                    "filter_width": 2,
                    "sample_rate": 16000,
                    "dilations": [1, 2, 4, 8],
                    "residual_channels": 8,
                    "dilation_channels": 8,
                    "quantization_channels": 256,
                    "skip_channels": 8,
                    "use_biases": True,
                    "scalar_input": False,
                    "initial_filter_width": 32,
                },
            ),
        ),
    ),
    Recipe(
        "keithito/tacotron",
        "speech from text: seq2seq with attention",
        "train.py --base_dir . --input training/train.txt --summary_interval 3 --checkpoint_interval 1000"
        " --hparams=batch_size=2,embed_depth=8,encoder_depth=16,postnet_depth=16,attention_depth=16,decoder_depth=16",
        commit="d26c76334251",
        steps=6,
        data=(
            text("librosa/__init__.py", LIBROSA),
            text("librosa/filters.py", ""),
            *(values(f"training/mel-{n}.npy", [[0.1] * 80] * 20) for n in range(4)),
            *(values(f"training/spec-{n}.npy", [[0.1] * 1025] * 20) for n in range(4)),
            text("training/train.txt", [f"spec-{n}.npy|mel-{n}.npy|20|some words to say {n}" for n in range(4)]),
        ),
    ),
)

EXAMPLES = tuple(
    Recipe(
        "aymericdamien/TensorFlow-Examples",
        what,
        f"{name}.py",
        commit="6dcbe1464916",
        part=name.split("/")[-1],
        folder="examples",
        steps=5,
        edits=(
            Edit(f"examples/{name}.py", r"^(num_steps|training_steps) = \d+", r"\1 = 5"),
            Edit(f"examples/{name}.py", r"^batch_size = \d+", "batch_size = 16"),
            *(() if "dynamic" in name else (Edit(f"examples/{name}.py", r"/tmp/data/?(?=[\"'])", "digits"),)),
            *devices,
        ),
        data=(idx_digits("examples/digits", ending=".gz"),),
    )
    for name, what, devices in (
        ("3_NeuralNetworks/convolutional_network", "a CNN of tf.layers in an Estimator", ()),
        ("3_NeuralNetworks/neural_network", "a network of tf.layers in an Estimator", ()),
        ("3_NeuralNetworks/dcgan", "a GAN of tf.layers", ()),
        ("3_NeuralNetworks/bidirectional_rnn", "a static bidirectional RNN", ()),
        ("3_NeuralNetworks/dynamic_rnn", "an RNN on sequences of unequal lengths", ()),
        ("3_NeuralNetworks/recurrent_network", "a static RNN", ()),
        ("6_MultiGPU/multigpu_cnn", "towers made by hand", DEVICES),
        ("5_DataManagement/tensorflow_dataset_api", "a CNN on tf.data", ()),
    )
)

RECIPES = (*TABLES, *GAMES, *SOUNDS, *EXAMPLES)
