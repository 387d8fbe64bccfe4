"""Readers on official formats with small content, on damaged files, and on the real ones."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile

import numpy as np
import pytest

from softset_papers.datasets import images
from softset_papers.datasets.images import load_images, read_caltech256, read_idx, split_images

BATCH = 20


@pytest.fixture
def small(monkeypatch):
    """CIFAR-10 and Fashion-MNIST with few images, made by the test: the arrays in them."""
    rng = np.random.default_rng(0)
    cifar = {
        "x_train": rng.integers(0, 256, (5 * BATCH, 32, 32, 3), np.uint8),
        "y_train": np.tile(np.arange(10, dtype=np.uint8), 5 * BATCH // 10),
        "x_test": rng.integers(0, 256, (BATCH, 32, 32, 3), np.uint8),
        "y_test": np.tile(np.arange(10, dtype=np.uint8), BATCH // 10),
    }
    planes = [
        cifar[k].transpose(0, 3, 1, 2) if k.startswith("x") else cifar[k]
        for k in ("x_train", "y_train", "x_test", "y_test")
    ]
    monkeypatch.setattr(images, "_CIFAR_BATCH", BATCH)
    monkeypatch.setitem(images.CHECKSUMS, "cifar-10", images.content_sum(*planes))
    return cifar


def records(cifar: dict) -> dict[str, bytes]:
    """The six official batches: a label, then the red, green and blue planes."""
    files = {}
    for i, name in enumerate(images._CIFAR_FILES):
        part = "test" if i == 5 else "train"
        rows = slice(0, BATCH) if i == 5 else slice(BATCH * i, BATCH * (i + 1))
        x = cifar[f"x_{part}"][rows].transpose(0, 3, 1, 2).reshape(BATCH, -1)
        files[name] = np.concatenate([cifar[f"y_{part}"][rows, None], x], 1).tobytes()
    return files


def write_archive(path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize("form", ["npz", "folder", "archive"])
def test_cifar_is_the_same_from_every_form(form, small, tmp_path):
    files = records(small)
    if form == "npz":
        np.savez(tmp_path / "cifar10.npz", **small)
    elif form == "folder":
        (tmp_path / "cifar-10-batches-bin").mkdir()
        for name, data in files.items():
            (tmp_path / "cifar-10-batches-bin" / name).write_bytes(data)
    else:
        inside = {f"cifar-10-batches-bin/{name}": data for name, data in files.items()}
        write_archive(tmp_path / "cifar-10-binary.tar.gz", {"readme": b"hello", **inside})
    data = load_images("cifar-10", tmp_path)
    assert data.x.shape == (6 * BATCH, 3, 32, 32)
    np.testing.assert_array_equal(data.x[3, :, 5, 7], small["x_train"][3, 5, 7])
    np.testing.assert_array_equal(data.x[-1, :, 31, 0], small["x_test"][-1, 31, 0])
    assert data.official_test.sum() == BATCH
    assert data.classes[data.y[6]] == "frog"


@pytest.mark.parametrize(
    ("name", "positive", "share"),
    [
        ("cifar-10-transportation", {0, 1, 8, 9}, 0.4),
        ("cifar-10-frog", {6}, 0.1),
        ("cifar-10-airplane", {0}, 0.1),
    ],
)
def test_binary_versions(name, positive, share, small, tmp_path):
    np.savez(tmp_path / "cifar10.npz", **small)
    y, whole = load_images(name, tmp_path).y, load_images("cifar-10", tmp_path).y
    assert y.mean() == pytest.approx(share)
    assert set(whole[y == 1]) == positive


def test_archive_that_leads_elsewhere_writes_nothing(small, tmp_path):
    inside = {f"cifar-10-batches-bin/{name}": data for name, data in records(small).items()}
    folder = tmp_path / "data"
    folder.mkdir()
    write_archive(folder / "cifar-10-binary.tar.gz", {"../evil": b"x", "/tmp/evil": b"x", **inside})
    load_images("cifar-10", folder)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["cifar-10-binary.tar.gz", "data"]


def damaged_npz(folder, small):
    (folder / "cifar10.npz").write_bytes(b"PK\x03\x04 no archive")


def altered_npz(folder, small):
    np.savez(folder / "cifar10.npz", **{**small, "y_test": small["y_test"][::-1]})


def other_shape(folder, small):
    np.savez(folder / "cifar10.npz", **{**small, "x_test": small["x_test"][:, :16]})


def no_array(folder, small):
    np.savez(folder / "cifar10.npz", x_train=small["x_train"])


def pickled_npz(folder, small):
    np.savez(folder / "cifar10.npz", **{**small, "y_train": np.array([print], dtype=object)})


def pickled_batches(folder, small):
    (folder / "cifar-10-batches-py").mkdir()


def short_batch(folder, small):
    (folder / "cifar-10-batches-bin").mkdir()
    for name, data in records(small).items():
        (folder / "cifar-10-batches-bin" / name).write_bytes(data[:-1])


def bomb(folder, small):
    large = {"cifar-10-batches-bin/data_batch_1.bin": bytes(10_000_000)}
    write_archive(folder / "cifar-10-binary.tar.gz", large)


def torn_archive(folder, small):
    write_archive(folder / "whole.tar.gz", {"cifar-10-batches-bin/x": bytes(1000)})
    data = (folder / "whole.tar.gz").read_bytes()
    (folder / "cifar-10-binary.tar.gz").write_bytes(data[:-20])


def missing_member(folder, small):
    write_archive(folder / "cifar-10-binary.tar.gz", {"readme": b"x"})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder, small: None, "binary version"),
        (damaged_npz, "not a readable npz"),
        (altered_npz, "not the official ones"),
        (other_shape, r"bytes of shape \[n, 32, 32, 3\]"),
        (no_array, "must hold x_train"),
        (pickled_npz, "not a readable npz"),
        (pickled_batches, "pickled files"),
        (short_batch, "must have"),
        (bomb, "is larger than"),
        (torn_archive, "not a readable archive"),
        (missing_member, "has no member"),
    ],
)
def test_wrong_files_are_named(make, message, small, tmp_path):
    make(tmp_path, small)
    with pytest.raises(ValueError, match=message):
        load_images("cifar-10", tmp_path)


def test_idx_files(tmp_path):
    x = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    path = tmp_path / "x.gz"
    data = struct.pack(">HBBIII", 0, 8, 3, 2, 3, 4) + x.tobytes()
    path.write_bytes(gzip.compress(data))
    np.testing.assert_array_equal(read_idx(path, (2, 3, 4)), x)
    wrong = [data[:-1], data + b"x", b"\0\0\x0d" + data[3:]]  # short, long, floats
    for content in wrong:
        path.write_bytes(gzip.compress(content))
        with pytest.raises(ValueError, match="must be an IDX file"):
            read_idx(path, (2, 3, 4))
    path.write_bytes(gzip.compress(data)[:-10])
    with pytest.raises(ValueError, match="readable gzip"):
        read_idx(path, (2, 3, 4))
    with pytest.raises(ValueError, match="zalandoresearch"):
        read_idx(tmp_path / "absent.gz", (2,))


def test_fashion_mnist_from_its_official_files_and_from_npz(shared_data, tmp_path):
    """The real content in both forms; the reader checks its sum."""
    with np.load(shared_data / "fashion_mnist.npz") as file:
        for part, official in (("train", "train"), ("test", "t10k")):
            x, y = file[f"x_{part}"], file[f"y_{part}"]
            for kind, a in (("images-idx3", x), ("labels-idx1", y)):
                header = struct.pack(f">HBB{a.ndim}I", 0, 8, a.ndim, *a.shape)
                path = tmp_path / f"{official}-{kind}-ubyte.gz"
                path.write_bytes(gzip.compress(header + a.tobytes(), 0))
    one, two = load_images("fashion-mnist", shared_data), load_images("fashion-mnist", tmp_path)
    np.testing.assert_array_equal(one.x, two.x)
    assert one.x.shape == (70_000, 1, 28, 28)
    shirts = load_images("fashion-mnist-tshirt", shared_data)
    assert shirts.y.sum() == 7000


def make_caltech(folder, classes=("001.ak47", "056.dog", "080.frog"), each=3):
    image = pytest.importorskip("PIL.Image")
    for number, name in enumerate(classes):
        (folder / "256_ObjectCategories" / name).mkdir(parents=True)
        for i in range(each):
            mode, color = ("L", 100) if i == 0 else ("RGB", (10, 200, 30 * number))
            picture = image.new(mode, (40 + i, 30), color)
            picture.save(folder / "256_ObjectCategories" / name / f"{number:03}_{i:04}.jpg")


def test_caltech_folder(tmp_path):
    make_caltech(tmp_path)
    (tmp_path / "256_ObjectCategories" / "056.dog" / "greg").mkdir()  # as in the official archive
    (tmp_path / "256_ObjectCategories" / "056.dog" / "RENAME2").write_text("#!/bin/sh")
    data = read_caltech256(tmp_path, pixels=32)
    assert data.x.shape == (9, 3, 32, 32)
    assert data.classes == ("ak47", "dog", "frog")
    assert data.y.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert abs(int(data.x[1, 1, 5, 5]) - 200) < 10
    assert load_images("caltech-256", tmp_path).x.shape == (9, 3, 64, 64)


def test_caltech_mistakes_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"data\.caltech\.edu"):
        read_caltech256(tmp_path)
    make_caltech(tmp_path)
    bad = tmp_path / "256_ObjectCategories" / "056.dog" / "bad.jpg"
    bad.write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"056\.dog/bad\.jpg is no readable image"):
        read_caltech256(tmp_path)
    bad.unlink()
    (tmp_path / "256_ObjectCategories" / "099.empty").mkdir()
    with pytest.raises(ValueError, match=r"099\.empty holds no"):
        read_caltech256(tmp_path)


@pytest.mark.parametrize(("how", "sizes"), [("67/17/17", [80, 20, 20]), ("64/16/20", [80, 20, 20]),
                                            ("90/10", [90, 10, 20])])  # fmt: skip
def test_splits_are_disjoint_and_keep_the_classes(how, sizes, small, tmp_path):
    np.savez(tmp_path / "cifar10.npz", **small)
    data = load_images("cifar-10", tmp_path)
    parts = split_images(data, how, seed=3)
    assert [len(p) for p in parts] == sizes
    assert len(set(np.concatenate(parts).tolist())) == sum(sizes)
    for rows in parts:
        assert len(set(np.bincount(data.y[rows], minlength=10).tolist())) <= 2
    if how != "64/16/20":
        assert data.official_test[parts[2]].all()
        assert not data.official_test[np.concatenate(parts[:2])].any()
    fewer = split_images(data, how, seed=3, sizes=(40, 10, 10))
    assert [len(p) for p in fewer] == [40, 10, 10]
    assert all(set(a) <= set(b) for a, b in zip(fewer, parts, strict=True))
    again = split_images(data, how, seed=3)
    assert all((a == b).all() for a, b in zip(parts, again, strict=True))
    assert any((a != b).any() for a, b in zip(parts, split_images(data, how, seed=4), strict=True))
