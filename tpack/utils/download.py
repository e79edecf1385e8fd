"""Download a file so that it is there complete or not at all, and once."""

import os
import shutil
import urllib.error
import urllib.parse
import urllib.request

from tpack.errors import ConfigError, InputError
from tpack.utils import logger
from tpack.utils.atomic import atomic_write

_TIMEOUT_SECS = 60.0


def download(url: str, dir: str | os.PathLike[str], filename: str | None = None, expect_size: int | None = None) -> str:
    """Download a file into a directory, unless it is there already.

    Nothing is downloaded when a file of the expected size is there, or any file if no size is expected. A file of
    another size is not overwritten.

    Args:
        url: beginning with ``http``, ``https``, ``ftp`` or ``file``.
        dir: the directory; made if it is not there.
        filename: the file's name in it; the last part of the URL's path unless given.
        expect_size: how many bytes it must have.

    Returns:
        The path of the file.

    Raises:
        ConfigError: The URL is of another kind, or has no file name.
        InputError: The file cannot be downloaded, is incomplete, or of another size; then nothing is left behind. Or
            there is a file of another size.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https", "ftp", "file"):
        raise ConfigError(f"wanted the URL of a file, beginning with http, https, ftp or file, got {url!r}")
    name = filename or os.path.basename(urllib.parse.unquote(parts.path))
    if not name:
        raise ConfigError(f"the URL {url!r} ends in no file name: give one")
    path = os.path.join(os.fspath(dir), name)
    if os.path.exists(path):
        _check_size(path, expect_size, "is there already")
        logger.info(f"Not downloading {url}: {path} is there already")
        return path
    os.makedirs(dir, exist_ok=True)
    logger.info(f"Downloading {url} to {path}")
    try:
        _fetch(url, path, expect_size)
    except (OSError, urllib.error.URLError) as error:
        raise InputError(f"{url} cannot be downloaded: {error}") from error
    logger.info(f"Downloaded {path}, {os.path.getsize(path):,} bytes")
    return path


def _fetch(url: str, path: str, expect_size: int | None) -> None:
    with urllib.request.urlopen(url, timeout=_TIMEOUT_SECS) as response, atomic_write(path, "wb") as file:
        shutil.copyfileobj(response, file)
        file.flush()
        announced = response.headers.get("Content-Length")
        _check_size(file.name, None if announced is None else int(announced), f"was downloaded incompletely from {url}")
        _check_size(file.name, expect_size, f"was downloaded from {url}")


def _check_size(path: str, expected: int | None, what: str) -> None:
    size = os.path.getsize(path)
    if expected is not None and size != expected:
        raise InputError(f"{path} {what}: wanted {expected:,} bytes, and it has {size:,}")
