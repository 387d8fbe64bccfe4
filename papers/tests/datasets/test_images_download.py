"""Downloads, from files in place of the net."""

from __future__ import annotations

import numpy as np
import pytest

from softset_papers.datasets import images, images_download
from softset_papers.datasets.images_download import download_images


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A "server" with Fashion-MNIST of two images, and the set that is read from it."""
    server = tmp_path / "server"
    server.mkdir()
    x = np.arange(2 * 28 * 28, dtype=np.uint8).reshape(2, 28, 28)
    y = np.array([0, 1], np.uint8)
    urls = []
    for url in images_download.SOURCES["fashion-mnist"]:
        path = server / url.rpartition("/")[2]
        path.write_bytes(b"content of " + path.name.encode())
        urls.append(path.as_uri())
    monkeypatch.setitem(images_download.SOURCES, "fashion-mnist", tuple(urls))
    monkeypatch.setattr(images, "read_idx", lambda path, shape: x if "images" in path.name else y)
    monkeypatch.setitem(
        images.CHECKSUMS, "fashion-mnist", images.content_sum(x[:, None], y, x[:, None], y)
    )
    return server


def test_files_come_once_and_stay(source, tmp_path):
    paths = download_images("fashion-mnist", tmp_path / "data")
    assert [p.read_bytes() for p in paths] == [b"content of " + p.name.encode() for p in paths]
    for path in source.iterdir():
        path.unlink()
    assert download_images("fashion-mnist", tmp_path / "data") == paths
    assert len(list((tmp_path / "data").iterdir())) == 4


def test_other_content_leaves_nothing_behind(source, tmp_path, monkeypatch):
    monkeypatch.setitem(images.CHECKSUMS, "fashion-mnist", "0" * 64)
    with pytest.raises(ValueError, match="not the official ones"):
        download_images("fashion-mnist", tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


def test_too_long_a_file_is_refused(source, tmp_path, monkeypatch):
    monkeypatch.setattr(images_download, "_LARGEST", 10)
    with pytest.raises(ValueError, match="larger than 10 bytes"):
        download_images("fashion-mnist", tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


def test_without_a_net_the_error_says_what_to_do(source, tmp_path):
    next(source.iterdir()).unlink()
    with pytest.raises(OSError, match="--data-dir"):
        download_images("fashion-mnist", tmp_path / "data")


def test_only_known_sets():
    with pytest.raises(ValueError, match="name must be one of"):
        download_images("imagenet", ".")
