"""Fetch CIFAR-10 and Fashion-MNIST from their homes; kept only if their content is the official."""

from __future__ import annotations

import os
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, BinaryIO

from softset.checks import check_choice
from softset_papers.datasets.images import read_cifar10, read_fashion_mnist

_FASHION = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/"
SOURCES: dict[str, tuple[str, ...]] = {
    "cifar-10": ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    "fashion-mnist": tuple(
        f"{_FASHION}{part}-{kind}-ubyte.gz"
        for part in ("train", "t10k")
        for kind in ("images-idx3", "labels-idx1")
    ),
}
_READ = {"cifar-10": read_cifar10, "fashion-mnist": read_fashion_mnist}
_LARGEST = 400_000_000  # bytes of a file; CIFAR-10 has 170 million
_PIECE = 2**20


def download_images(name: str, data_dir: str | os.PathLike[str]) -> list[Path]:
    """Write the official files of a set to ``data_dir``; those that are there are left alone.

    They are fetched into a directory beside it, read and checked there, and only then moved.
    """
    check_choice("name", name, SOURCES)
    directory = Path(data_dir)
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / url.rpartition("/")[2] for url in SOURCES[name]]
    if all(path.is_file() for path in paths):
        return paths
    with tempfile.TemporaryDirectory(dir=directory, prefix=".fetch-") as place:
        for url, path in zip(SOURCES[name], paths, strict=True):
            _fetch(url, Path(place) / path.name)
        _READ[name](Path(place))  # raises if the content is not the official one
        for path in paths:
            os.replace(Path(place) / path.name, path)
    return paths


def _fetch(url: str, path: Path) -> None:
    try:
        with urllib.request.urlopen(url, timeout=60) as source, open(path, "wb") as file:
            _copy(source, file, path.name)
    except OSError as error:
        raise OSError(
            error.errno,
            f"could not fetch {url} ({error}). Without internet, use files of your own with "
            "--data-dir",
        ) from error


def _copy(source: Any, file: BinaryIO, name: str) -> None:
    """All of it, unless it is more than any of the files has."""
    left = _LARGEST
    while data := source.read(_PIECE):
        left -= len(data)
        if left < 0:
            raise ValueError(f"{name} is larger than {_LARGEST} bytes: not the official file.")
        file.write(data)
