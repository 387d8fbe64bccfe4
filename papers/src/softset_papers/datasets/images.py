"""The papers' image sets, read from their official files or from an ``.npz``; never unpickled.

===============  ===============================================================================
CIFAR-10         ``cifar10.npz``, the folder ``cifar-10-batches-bin``, or the archive
                 ``cifar-10-binary.tar.gz`` (read in place, nothing is unpacked)
Fashion-MNIST    ``fashion_mnist.npz``, or the four ``*-ubyte.gz`` files
Caltech-256      the folder ``256_ObjectCategories`` (needs Pillow)
===============  ===============================================================================

The first two are checked against a sum over all images and labels, whatever file they come from.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softset.checks import check_choice
from softset_papers.datasets.papers import data_directory

Bytes = NDArray[np.uint8]
CIFAR_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
FASHION_CLASSES = (
    "t-shirt", "trouser", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
TRANSPORT = ("airplane", "automobile", "ship", "truck")
# SHA-256 of training images, training labels, test images, test labels.
CHECKSUMS = {
    "cifar-10": "32e5966899bde482c0ef7d076bf69809b4b1488c806f657a814cfca4646ec493",
    "fashion-mnist": "ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f",
}
_CIFAR_RECORD = 1 + 3 * 32 * 32
_CIFAR_FILES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
_CIFAR_BATCH = 10_000
_CALTECH_PIXELS = 64
_LARGEST_IMAGE = 64_000_000  # pixels; Caltech-256 has nothing near it


@dataclass(frozen=True)
class ImageSet:
    """Images ``x [n, channels, height, width]`` of bytes, labels ``y [n]`` from 0 on.

    ``official_test`` marks the rows of the official test part; None if there is none.
    """

    name: str
    x: Bytes
    y: NDArray[np.int64]
    classes: tuple[str, ...]
    official_test: NDArray[np.bool_] | None = None

    def against_rest(self, name: str, positive: tuple[str, ...]) -> ImageSet:
        """Two classes: 1 for ``positive``, 0 for the rest."""
        y = np.isin(self.y, [self.classes.index(c) for c in positive]).astype(np.int64)
        return replace(self, name=name, y=y, classes=("rest", " or ".join(positive)))


def load_images(name: str, data_dir: str | os.PathLike[str] | None = None) -> ImageSet:
    """A set by name (``IMAGE_SETS``) from ``data_dir``, or from where ``SOFTSET_DATA`` points to.

    Binary versions: ``"cifar-10-transportation"`` and ``"cifar-10-frog"`` (paper 000 supplement
    4.1.6), ``"cifar-10-airplane"`` and ``"fashion-mnist-tshirt"`` (paper 004 section 5.1).
    """
    check_choice("name", name, IMAGE_SETS)
    directory = data_directory(data_dir, name)
    for base, (read, versions) in _READERS.items():
        if name == base:
            return read(directory)
        if name in versions:
            return read(directory).against_rest(name, versions[name])
    raise AssertionError(name)


# --- CIFAR-10 -----------------------------------------------------------------------------------


def read_cifar10(directory: Path) -> ImageSet:
    """All 60,000 images, ``[n, 3, 32, 32]``."""
    folder, archive = directory / "cifar-10-batches-bin", directory / "cifar-10-binary.tar.gz"
    if (directory / "cifar10.npz").is_file():
        parts = _read_npz(directory / "cifar10.npz", (32, 32, 3))
    elif folder.is_dir():
        parts = _cifar_parts([_read_whole(folder / name) for name in _CIFAR_FILES])
    elif archive.is_file():
        parts = _cifar_parts(_members(archive, [f"{folder.name}/{name}" for name in _CIFAR_FILES]))
    elif (directory / "cifar-10-batches-py").exists():
        raise ValueError(
            "cifar-10-batches-py holds pickled files, which could run code and are not read. Get "
            "the binary version, cifar-10-binary.tar.gz, from www.cs.toronto.edu/~kriz/cifar.html."
        )
    else:
        raise ValueError(
            f"neither cifar10.npz, cifar-10-batches-bin nor cifar-10-binary.tar.gz is in "
            f"{str(directory)!r}. Get the binary version from www.cs.toronto.edu/~kriz/cifar.html."
        )
    return _checked("cifar-10", parts, CIFAR_CLASSES)


def _cifar_parts(batches: list[bytes]) -> tuple[Bytes, ...]:
    """Records of one label and 3 x 32 x 32 bytes; five batches for training, one for testing."""
    arrays = []
    for name, data in zip(_CIFAR_FILES, batches, strict=True):
        if len(data) != _CIFAR_BATCH * _CIFAR_RECORD:
            raise ValueError(
                f"{name} must have {_CIFAR_BATCH * _CIFAR_RECORD} bytes, got {len(data)}."
            )
        arrays.append(np.frombuffer(data, np.uint8).reshape(-1, _CIFAR_RECORD))
    train, test = np.concatenate(arrays[:-1]), arrays[-1]
    shape = (-1, 3, 32, 32)
    return train[:, 1:].reshape(shape), train[:, 0], test[:, 1:].reshape(shape), test[:, 0]


def _members(path: Path, names: list[str]) -> list[bytes]:
    """Files of an archive by their exact names: no path of the archive touches the disk."""
    limit = _CIFAR_BATCH * _CIFAR_RECORD
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r|gz") as archive:  # a stream: stops when all are there
            for member in archive:
                if member.name in names and member.isfile():
                    if member.size > limit:
                        raise ValueError(f"{member.name} in {path.name} is larger than {limit}.")
                    file = archive.extractfile(member)
                    found[member.name] = b"" if file is None else file.read(limit)
                if len(found) == len(names):
                    break
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path.name} is not a readable archive: {error}") from error
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"{path.name} has no member {missing[0]!r}.")
    return [found[name] for name in names]


# --- Fashion-MNIST ------------------------------------------------------------------------------


def read_fashion_mnist(directory: Path) -> ImageSet:
    """All 70,000 images, ``[n, 1, 28, 28]``."""
    if (directory / "fashion_mnist.npz").is_file():
        parts = _read_npz(directory / "fashion_mnist.npz", (28, 28))
    else:
        parts = tuple(
            read_idx(directory / f"{part}-{kind}-ubyte.gz", shape)
            for part, n in (("train", 60_000), ("t10k", 10_000))
            for kind, shape in (("images-idx3", (n, 28, 28)), ("labels-idx1", (n,)))
        )
    parts = tuple(a[:, None] if a.ndim == 3 else a for a in parts)
    return _checked("fashion-mnist", parts, FASHION_CLASSES)


def read_idx(path: Path, shape: tuple[int, ...]) -> Bytes:
    """A gzipped IDX file of bytes with exactly this shape; not one byte more is unpacked."""
    header = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)
    size = len(header) + int(np.prod(shape))
    try:
        with gzip.open(path) as file:
            data = file.read(size + 1)
    except FileNotFoundError as error:
        raise ValueError(
            f"{path.name} is not in {str(path.parent)!r}, nor fashion_mnist.npz. Get the four "
            "files from github.com/zalandoresearch/fashion-mnist."
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path.name} is not a readable gzip file: {error}") from error
    if len(data) != size or not data.startswith(header):
        raise ValueError(f"{path.name} must be an IDX file of bytes with shape {shape}.")
    return np.frombuffer(data, np.uint8, offset=len(header)).reshape(shape)


# --- Caltech-256 --------------------------------------------------------------------------------


def read_caltech256(directory: Path, pixels: int = _CALTECH_PIXELS) -> ImageSet:
    """A folder for each class (``056.dog``), images scaled to ``pixels`` squared, in color.

    The papers do not say which size they used. Classes are in the order of their folders' numbers,
    so that in the full set dog is 55 and frog 79 (paper 002 C.1).
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ValueError(
            "reading Caltech-256 needs Pillow. Run: pip install 'softset-papers[caltech]'"
        ) from error
    root = directory / "256_ObjectCategories"
    folders = sorted(f for f in root.iterdir() if f.is_dir()) if root.is_dir() else []
    if len(folders) < 2:
        raise ValueError(
            f"no class folders in {str(root)!r}. Get 256_ObjectCategories.tar from "
            "data.caltech.edu (20087) and unpack it there."
        )
    images, labels = [], []
    for label, folder in enumerate(folders):
        # Only images: the official archive has a stray program and a folder among them.
        for path in sorted(p for p in folder.iterdir() if p.suffix.lower() in (".jpg", ".jpeg")):
            try:
                with Image.open(path) as image:
                    if image.width * image.height > _LARGEST_IMAGE:
                        raise ValueError(f"{folder.name}/{path.name} is too large an image.")
                    small = image.convert("RGB").resize((pixels, pixels), Image.Resampling.BILINEAR)
            except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
                raise ValueError(f"{folder.name}/{path.name} is no readable image.") from error
            images.append(np.asarray(small).transpose(2, 0, 1))
            labels.append(label)
        if label not in labels[-1:]:
            raise ValueError(f"the folder {folder.name} holds no .jpg file.")
    names = tuple(folder.name.partition(".")[2] or folder.name for folder in folders)
    return ImageSet("caltech-256", np.stack(images), np.array(labels, dtype=np.int64), names)


# --- what they share ----------------------------------------------------------------------------


def _read_whole(path: Path) -> bytes:
    if not path.is_file():
        raise ValueError(f"{path.name} is not in {str(path.parent)!r}.")
    return path.read_bytes()


def _read_npz(path: Path, shape: tuple[int, ...]) -> tuple[Bytes, ...]:
    """``x_train, y_train, x_test, y_test`` of bytes; color comes to the front."""
    try:
        with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as file:
            arrays = [np.asarray(file[f"{a}_{p}"]) for p in ("train", "test") for a in ("x", "y")]
    except KeyError as error:
        raise ValueError(f"{path.name} must hold x_train, y_train, x_test, y_test.") from error
    except Exception as error:  # zipfile, zlib, numpy and struct each have errors of their own
        raise ValueError(f"{path.name} is not a readable npz file: {error}") from error
    for x, y in (arrays[:2], arrays[2:]):
        if x.dtype != np.uint8 or x.shape[1:] != shape or y.shape != (len(x),):
            raise ValueError(
                f"{path.name} must hold bytes of shape [n, {', '.join(map(str, shape))}] with a "
                f"label each, got {x.dtype} {list(x.shape)}."
            )
    if len(shape) == 3:
        arrays[0], arrays[2] = (arrays[i].transpose(0, 3, 1, 2) for i in (0, 2))
    return tuple(arrays)


def content_sum(*parts: NDArray[Any]) -> str:
    """SHA-256 of images and labels as bytes, one after the other."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(np.ascontiguousarray(part, dtype=np.uint8).tobytes())
    return digest.hexdigest()


def _checked(name: str, parts: tuple[Bytes, ...], classes: tuple[str, ...]) -> ImageSet:
    x, y, x_test, y_test = parts
    found = content_sum(x, y, x_test, y_test)
    if found != CHECKSUMS[name]:
        raise ValueError(
            f"the files of {name} are not the official ones: their content has the sum "
            f"{found[:12]}…, expected {CHECKSUMS[name][:12]}…."
        )
    test = np.arange(len(y) + len(y_test)) >= len(y)
    labels = np.concatenate([y, y_test]).astype(np.int64)
    return ImageSet(name, np.concatenate([x, x_test]), labels, classes, test)


_READERS: dict[str, tuple[Callable[[Path], ImageSet], dict[str, tuple[str, ...]]]] = {
    "cifar-10": (
        read_cifar10,
        {
            "cifar-10-transportation": TRANSPORT,
            "cifar-10-frog": ("frog",),
            "cifar-10-airplane": ("airplane",),
        },
    ),
    "fashion-mnist": (read_fashion_mnist, {"fashion-mnist-tshirt": ("t-shirt",)}),
    "caltech-256": (read_caltech256, {}),
}
IMAGE_SETS = tuple(n for base, (_, versions) in _READERS.items() for n in (base, *versions))


# --- parts --------------------------------------------------------------------------------------

Rows = NDArray[np.intp]
SPLITS = ("67/17/17", "64/16/20", "90/10")


def split_images(
    data: ImageSet, how: str, seed: int = 0, sizes: tuple[int, int, int] | None = None
) -> tuple[Rows, Rows, Rows]:
    """Row numbers for training, validation and test, each with its share of every class.

    Args:
        how: ``"67/17/17"`` (paper 000: the official test part, a fifth of the rest to validate),
            ``"64/16/20"`` (paper 002: of all images) or ``"90/10"`` (paper 004: the official test
            part, a tenth of the rest to validate).
        sizes: take only so many of each part (about, for the sake of the classes).
    """
    check_choice("how", how, SPLITS)
    rng = np.random.default_rng(seed)
    everything = np.arange(len(data.y))
    if how == "64/16/20" or data.official_test is None:
        rest, test = _share(everything, data.y, 0.2, rng)
    else:
        rest, test = everything[~data.official_test], everything[data.official_test]
    train, validation = _share(rest, data.y, 0.1 if how == "90/10" else 0.2, rng)
    parts = [train, validation, test]
    if sizes is not None:
        for i, size in enumerate(sizes):
            if size < len(parts[i]):
                parts[i] = _share(parts[i], data.y, size / len(parts[i]), rng)[1]
    return parts[0], parts[1], parts[2]


def _share(
    rows: Rows, y: NDArray[np.int64], share: float, rng: np.random.Generator
) -> tuple[Rows, Rows]:
    """Without and with this share of each class (at least one row of it)."""
    held = np.zeros(len(y), dtype=bool)
    for label in np.unique(y[rows]):
        own = rows[y[rows] == label]
        held[rng.permutation(own)[: max(1, round(share * len(own)))]] = True
    return rows[~held[rows]], rows[held[rows]]
