"""Rows of Parquet files that need not fit into memory."""

from __future__ import annotations

import copy
import hashlib
import os
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from softset.checks import check_integer, check_number, listed, require
from softset.tables.columnar import check_schema, damaged, row_numbers, to_frame, unpacked_size
from softset.tables.labels import label_matrix
from softset.tables.reading import bytes_allowed, check_columns, expanded
from softset.tables.rows import frame_codes, kept_together, row_codes
from softset.typing import Array, ArrowSchema, Frame

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

# A table, its labels and, if there are any, the weights of its rows.
Block = tuple[Frame, *tuple[Array, ...]]
_ENDINGS = (".parquet", ".pq")
# The name of a partition of rows without a value.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# Rows in a block.
_ROWS = 2**13
# A column is read from a file by so many bytes, so that a row group need not fit.
_BUFFER = 2**18
# Rows that tell whether rows repeat.
_SAMPLE = 2**16


class ParquetRows:
    """The rows of a Parquet file, or of all Parquet files in a directory, block by block.

    It can be gone through again and again, and gives blocks ``(X, y)``, or ``(X, y, weight)``: a
    data frame, its labels, its weights. One block is in memory at a time.
    ``MetricMLPClassifier.fit``, ``MetricBoostingClassifier.fit`` and ``train_model`` take it in the
    place of their data.

    All files must have the same columns. Folders named ``day=1`` in a directory are read too,
    with their ``day`` as a column (integers if all are, else text); other folders with Parquet
    files are refused, unless their names begin with ``_`` or a dot.

    Args:
        path: a file, or a directory of files that end in ``.parquet`` or ``.pq``.
        target: the column to predict; several are labels of 0 and 1 each. None at all, for rows
            to be predicted: ``y`` has no column then.
        sample_weight: the column with the rows' weights.
        drop: columns to leave out.

    Attributes:
        rows: how many there are (``split`` gives about as many as it says).
        columns: the names of the inputs.
        target: the names of the target columns.
        left_out: the names of the others, the weights among them.

    >>> import tempfile, pandas as pd
    >>> file = Path(tempfile.mkdtemp(), "small.parquet")
    >>> pd.DataFrame({"x": range(6), "y": list("ababab")}).to_parquet(file, row_group_size=4)
    >>> rows = ParquetRows(file, "y")
    >>> rows.rows, rows.columns, [len(y) for X, y in rows]
    (6, ['x'], [4, 2])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str | Sequence[str] = (),
        *,
        sample_weight: str | None = None,
        drop: Collection[str] = (),
    ) -> None:
        for package in ("pandas", "pyarrow"):
            require(package, "cli", "reading Parquet files")
        self.path = Path(path)
        self.files = _files(self.path)
        self._partitions = _partitions(self.path, self.files)
        opened = [_opened(file) for file in self.files]
        self._versions = [_version(file) for file in self.files]
        self.schema = schema = opened[0][0]
        for file, (other, *_) in zip(self.files, opened, strict=True):
            _check_same(self.files[0].name, schema, file.name, other)
        left_out = row_numbers(schema)
        names = [name for name in schema.names if name not in left_out]
        if again := [name for name in self._partitions if name in names]:
            raise ValueError(f"{again[0]!r} is a column of {self.files[0].name} and of a folder.")
        names += self._partitions
        self.target = expanded([target] if isinstance(target, str) else target, names)
        self.sample_weight = sample_weight
        apart = [*self.target, *([] if sample_weight is None else [sample_weight])]
        dropped = expanded(drop, names)
        check_columns(self.path.name, names, [*apart, *dropped])
        gone = {*apart, *dropped}
        self.columns = [name for name in names if name not in gone]
        self.left_out = [name for name in names if name in gone and name not in self.target]
        if not self.columns:
            raise ValueError(f"{self.path.name} has no column but {listed(apart)}.")
        self._used = [*self.columns, *apart]
        self._read = [name for name in self._used if name not in self._partitions]
        self.groups = [
            (file, i)
            for file, (_, info, _) in zip(self.files, opened, strict=True)
            for i in range(info.num_row_groups)
        ]
        self._sizes = [
            info.row_group(i).num_rows for _, info, _ in opened for i in range(info.num_row_groups)
        ]
        self.rows = sum(self._sizes)
        self.size = sum(size for *_, size in opened)
        if not self.rows:
            raise ValueError(f"{self.path.name} has 0 rows.")
        # The fraction of the rows that a split holds out, whether these are the rows held out, and
        # whether a row's position decides, and not what it holds.
        self._fraction, self._held_out, self._by_position, self._salt = 0.0, False, False, 0

    def __iter__(self) -> Iterator[Block]:
        """All blocks in the order of the files."""
        return self._blocks(self.groups)

    def shuffled(self, seed: int) -> Iterator[Block]:
        """All blocks, the row groups in a random order; rows of a group stay as they are."""
        order = np.random.default_rng(seed).permutation(len(self.groups))
        return self._blocks([self.groups[i] for i in order])

    def split(self, fraction: float, random_state: int = 0) -> tuple[Self, Self]:
        """The rows without a random fraction of them, and that fraction.

        What a row holds, with ``random_state``, decides its side: equal rows are on one side. Where
        rows repeat (``kept_together``, in a sample of them), the position of a row decides.
        """
        check_number("fraction", fraction, 0, 1)
        repeat = kept_together(self._sampled_codes(), min(fraction, 1 - fraction)) is None
        sides = copy.copy(self), copy.copy(self)
        for side, held_out in zip(sides, (False, True), strict=True):
            side._fraction, side._held_out, side._by_position = fraction, held_out, repeat
            side._salt = random_state
            side.rows = round(self.rows * (fraction if held_out else 1 - fraction))
        return sides

    def shard(self, num_shards: int, index: int) -> Self:
        """The row groups with the numbers ``index``, ``index + num_shards``, …: of a rank, say."""
        check_integer("num_shards", num_shards, 1)
        check_integer("index", index, 0, num_shards - 1)
        shard = copy.copy(self)
        shard.groups, shard._sizes = self.groups[index::num_shards], self._sizes[index::num_shards]
        shard.rows = round(self.rows * sum(shard._sizes) / max(sum(self._sizes), 1))
        return shard

    def table(self) -> Block:
        """All rows in memory, as one block."""
        import pandas as pd

        blocks = list(self)
        if not blocks:
            return pd.DataFrame(columns=self.columns), np.empty(0)
        X, *others = zip(*blocks, strict=True)
        return pd.concat(X, ignore_index=True), *(np.concatenate(arrays) for arrays in others)

    def fingerprint(self) -> str:
        """A hash of names, columns and of what the files say of themselves; not of every cell."""
        settings = (self._used, self.target, self._fraction, self._held_out, self._salt)
        digest = hashlib.sha256(repr(settings).encode())
        for file in self.files:
            with open(file, "rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(size - 8)
                footer = min(size, int.from_bytes(stream.read(4), "little") + 8)
                stream.seek(size - footer)
                digest.update(f"{self._name(file)} {size} ".encode() + stream.read())
        return digest.hexdigest()

    def _name(self, file: Path) -> str:
        """A file within its directory, folders included."""
        return file.name if file == self.path else file.relative_to(self.path).as_posix()

    def _blocks(self, groups: list[tuple[Path, int]]) -> Iterator[Block]:
        import pyarrow as pa
        from pyarrow import parquet

        versions = dict(zip(self.files, self._versions, strict=True))
        for path, group in groups:
            try:
                with parquet.ParquetFile(path, buffer_size=_BUFFER) as file:
                    info = file.metadata
                    first = sum(info.row_group(i).num_rows for i in range(group))
                    positions = count()
                    options = {"row_groups": [group], "columns": self._read, "use_threads": False}
                    for batch in file.iter_batches(_ROWS, **options):
                        if _version(path) != versions[path]:
                            raise _changed(path)
                        frame = to_frame(pa.Table.from_batches([batch]))
                        frame.index = range(first, first + batch.num_rows)
                        for name in self._partitions:
                            if name in self._used:
                                frame[name] = self._partitions[name][path]
                        block = self._block(frame, self._name(path), group, positions)
                        first += batch.num_rows
                        if len(block[0]):
                            yield block
            except MemoryError:
                raise
            except (pa.ArrowException, OSError, UnicodeError, IndexError) as error:
                if _version(path) != versions[path]:
                    raise _changed(path) from None
                raise damaged(path, "Parquet", error) from None

    def _block(self, frame: Frame, name: str, group: int, positions: Iterator[int]) -> Block:
        """The block of a frame, whose index counts the rows of its file; ``positions`` goes on
        counting the rows of the row group that are used."""
        used = np.ones(len(frame), dtype=bool)
        if self.sample_weight is not None:
            # A weight of 0 is no row.
            used = (frame[self.sample_weight] != 0).to_numpy(dtype=bool, na_value=True)
        apart = [*self.target, *([] if self.sample_weight is None else [self.sample_weight])]
        for column in apart:
            missing = frame[column].isna().to_numpy() & used
            if missing.any():
                raise ValueError(
                    f"{name}: column {column!r} is missing in row "
                    f"{frame.index[missing][0] + 1}. Fill or remove such rows."
                )
        frame = frame[used]
        if self._fraction:
            codes = frame_codes(frame[self.columns], self._salt)
            if self._by_position:
                file = zlib.crc32(name.encode())
                keys = [(file, group, position) for position in islice(positions, len(frame))]
                codes = row_codes(np.array(keys), self._salt)
            frame = frame[(codes < np.uint64(self._fraction * 2.0**64)) == self._held_out]
        X = frame[self.columns]
        if len(self.target) == 1:
            y = frame[self.target[0]].to_numpy()
        elif self.target:
            y = label_matrix(frame[self.target].to_numpy(dtype=object))
        else:
            y = np.empty((len(frame), 0))
        if self.sample_weight is None:
            return X, y
        return X, y, frame[self.sample_weight].to_numpy(dtype=np.float64)

    def _sampled_codes(self) -> NDArray[np.uint64]:
        """Of at most ``_SAMPLE`` rows, from row groups in a random order."""
        codes: list[NDArray[np.uint64]] = []
        for block in self.shuffled(0):
            codes.append(frame_codes(block[0]))
            if sum(map(len, codes)) >= _SAMPLE:
                break
        return np.concatenate(codes)[:_SAMPLE]


def is_beyond_memory(path: Path) -> bool:
    """Whether a table is a directory of Parquet files, or a Parquet file beyond the limit of
    ``read_table``."""
    if path.is_dir():
        return True
    if path.suffix.lower() not in _ENDINGS or not path.is_file():
        return False
    try:
        *_, size = _opened(path)
    except ValueError:  # damaged, or another format: reading it says which
        return False
    return size > bytes_allowed(None)


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    if not path.is_dir():
        if path.suffix.lower() not in _ENDINGS:
            raise ValueError(f"{path.name}: a Parquet file ends in {' or '.join(_ENDINGS)}.")
        return [path]
    files = _inside(path)
    if not files:
        raise ValueError(f"{path} holds no file that ends in {' or '.join(_ENDINGS)}.")
    return files


def _inside(folder: Path) -> list[Path]:
    """The Parquet files of a folder, and those of its partitions (``day=1``), by name."""
    files: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(("_", ".")):
            continue
        if path.is_dir():
            inside = any(p.suffix.lower() in _ENDINGS for p in path.rglob("*"))
            if inside and "=" not in path.name:
                raise ValueError(
                    f"{folder.name} has a folder {path.name!r}. Folders are read if they are named "
                    "KEY=VALUE; move it away, or give its own path."
                )
            files += _inside(path) if inside else []
        elif path.suffix.lower() in _ENDINGS:
            files.append(path)
    return files


def _partitions(folder: Path, files: list[Path]) -> dict[str, dict[Path, int | str | None]]:
    """The columns that folders stand for, and the value of each file: Hive's way."""
    keys: list[dict[str, str]] = []
    for file in files:
        parents = file.relative_to(folder).parent.parts if file != folder else ()
        keys.append({k: unquote(v) for k, _, v in (name.partition("=") for name in parents)})
        if list(keys[-1]) != list(keys[0]):
            raise ValueError(
                f"{file.name} is in folders of {listed(keys[-1]) or 'no key'}, and "
                f"{files[0].name} of {listed(keys[0]) or 'no key'}. Put all files as deep."
            )
    columns: dict[str, dict[Path, int | str | None]] = {}
    for key in keys[0]:
        texts = [None if each[key] == _NO_VALUE else each[key] for each in keys]
        integers = all(re.fullmatch(r"-?\d{1,18}", text) for text in texts if text is not None)
        values = [int(t) if integers and t is not None else t for t in texts]
        columns[key] = dict(zip(files, values, strict=True))
    return columns


def _opened(path: Path) -> tuple[ArrowSchema, FileMetaData, int]:
    """The schema and the metadata of a file, and its size in memory."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            schema, info = file.schema_arrow, file.metadata
            check_schema(path.name, schema)
            return schema, info, unpacked_size(file)
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise damaged(path, "Parquet", error) from None


def _version(path: Path) -> tuple[int, int, int]:
    """What tells whether a file was replaced or changed."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _changed(path: Path) -> ValueError:
    return ValueError(
        f"{path.name} was changed or replaced while it was read: what was learned so far is from "
        "other rows. Start again when nothing writes to it."
    )


def _check_same(name: str, schema: ArrowSchema, other_name: str, other: ArrowSchema) -> None:
    for field in schema:
        index = other.get_field_index(field.name)
        if index < 0:
            raise ValueError(f"{other_name} has no column {field.name!r}, which {name} has.")
        if other.field(index).type != field.type:
            raise ValueError(
                f"column {field.name!r} is {field.type} in {name} and {other.field(index).type} in "
                f"{other_name}; all files must have the same columns."
            )
