"""Readers and splits, on made-up files in the form of the real ones and on the real ones."""

import hashlib

import numpy as np
import pandas
import pytest

from softset_papers.datasets.pairs import FEATURES, fill_untracked, pair_features
from softset_papers.datasets.papers import PAPER_SETS, equitability, has_files, load_paper_set
from softset_papers.datasets.splits import make_parts, split_rows
from tests.datasets.made_up import ADULT_ROWS, CARD_ROWS, FRAMES, MAMMOGRAPHY_ROWS, write_sets

ROWS = {
    "synthetic-33": 7500,
    "synthetic-5": 5250,
    "cocktailparty": 15 * FRAMES,
    "adult": ADULT_ROWS,
    "adult-codes": ADULT_ROWS,
    "adult-as-read": ADULT_ROWS,
    "mammography": MAMMOGRAPHY_ROWS,
    "creditcard": CARD_ROWS,
    "creditcard-subset": CARD_ROWS,
}
every_set = pytest.mark.parametrize("name", PAPER_SETS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_sets(tmp_path_factory.mktemp("sets"))


@every_set
def test_every_set_is_read_as_finite_numbers(name, folder):
    data = load_paper_set(name, folder)
    assert data.x.shape == (ROWS[name], len(data.features))
    assert np.isfinite(data.x).all()
    assert set(data.y) == {0, 1}


@every_set
def test_real_files_have_the_published_facts(name, shared_data):
    info = PAPER_SETS[name]
    if info.files and not has_files(name, shared_data):
        pytest.skip(f"{info.files[0]} is not here")
    data = load_paper_set(name, shared_data)
    assert (*data.x.shape, data.y.sum()) == (info.rows, info.features, info.positives)


def test_official_files_of_adult_have_the_sizes_of_the_authors_code(shared_data):
    parts = split_rows(load_paper_set("adult-codes", shared_data))
    assert [len(rows) for rows in parts] == [26048, 6513, 16281]


def test_ages_as_the_authors_code_reads_them(shared_data):
    """One column of numbers and text, as pandas makes it of the two official files."""
    data, plain = (load_paper_set(n, shared_data) for n in ("adult-as-read", "adult-codes"))
    test = data.official_test
    mixed = pandas.Series(
        [f" {age:g}" if held else int(age) for age, held in zip(plain.x[:, 0], test, strict=True)],
        dtype=object,
    )
    assert data.x[:, 0].tolist() == mixed.astype("category").cat.codes.tolist()
    assert data.x[~test, 0].max() < data.x[test, 0].min()
    assert (data.x[:, 1:] == plain.x[:, 1:]).all()


def test_weights_restore_the_prior(folder):
    data = load_paper_set("creditcard-subset", folder)
    assert data.weight[data.y == 0].sum() == pytest.approx(284315)
    assert data.weight[data.y == 1].sum() == pytest.approx(492)


def test_amount_is_a_logarithm_and_time_is_gone(folder):
    data = load_paper_set("creditcard", folder)
    assert data.features[-1] == "log Amount"
    assert data.x[3, -1] == pytest.approx(np.log(0.001))
    assert "Time" not in data.features


# --- pairs --------------------------------------------------------------------------------------


def room(place, theta, group):
    return pandas.DataFrame(
        {
            "frame": 1,
            "timestamp": 0,
            "person_id": range(6),
            "x": [p[0] for p in place],
            "y": [p[1] for p in place],
            "theta": theta,
            "group": group,
        }
    )


PLACE = [(2.0, 1.0), (2.0, 5.0), (0.0, 3.0), (4.0, 3.0), (2.0, 9.0), (7.0, 1.0)]
THETA = [np.pi / 2, 0.0, 0.0, np.pi, 0.3, -0.3]


def test_first_pair_by_hand():
    """Persons 0 and 1 stand 4 apart on a vertical line; turned, it is the x-axis."""
    x, y = pair_features(room(PLACE, THETA, [0, 0, 1, 1, -1, -1]))
    first = dict(zip(FEATURES, x[0], strict=True))
    assert first["x of first"] == pytest.approx(-2)
    assert first["x of second"] == pytest.approx(2)
    # Person 0 looks up, towards person 1: along the axis.
    assert (first["cos of first"], first["sin of first"]) == pytest.approx((1, 0))
    # Person 1 looks right, which is now down.
    assert (first["cos of second"], first["sin of second"]) == pytest.approx((0, -1))
    # Person 2 is 2 to the left of the middle, which is now above it.
    assert (first["x of other 1"], first["y of other 1"]) == pytest.approx((0, 2))
    assert (first["x of other 2"], first["y of other 2"]) == pytest.approx((0, -2))
    # Same group; others; and two who are alone are apart.
    assert y[0] == 0
    assert y[1] == 1
    assert y[14] == 1


def test_turning_and_moving_the_room_changes_nothing():
    x, _ = pair_features(room(PLACE, THETA, [0] * 6))
    turn = 0.7
    c, s = np.cos(turn), np.sin(turn)
    moved = [(c * a - s * b + 10, s * a + c * b - 3) for a, b in PLACE]
    again, _ = pair_features(room(moved, [t + turn for t in THETA], [0] * 6))
    assert np.allclose(x, again)


def test_untracked_people_are_where_their_tracks_lead():
    people = room(PLACE, THETA, [0] * 6).assign(timestamp=10)
    people.loc[4, ["x", "y", "theta"]] = np.nan
    tracks = pandas.DataFrame(
        {
            "timestamp": [0, 20],
            "person_id": 4,
            "x": [0.0, 4.0],
            "y": [1.0, 2.0],
            "theta": [np.radians(170), np.radians(-170)],
        }
    )
    filled = fill_untracked(people, tracks).loc[4]
    assert (filled["x"], filled["y"]) == pytest.approx((2, 1.5))
    assert abs(filled["theta"]) == pytest.approx(np.pi)  # not 0, the mean of 170 and -170
    with pytest.raises(ValueError, match="person 4 has no position"):
        fill_untracked(people, tracks.assign(person_id=5))


# --- splits -------------------------------------------------------------------------------------


@every_set
@pytest.mark.parametrize("duplicates", ["anywhere", "together"])
def test_parts_are_disjoint_and_have_their_shares(name, duplicates, folder):
    data = load_paper_set(name, folder)
    rows = split_rows(data, 3, duplicates)
    assert len(np.unique(np.concatenate(rows))) == sum(map(len, rows))
    if data.official_test is None:
        shares = [len(r) / len(data.y) for r in rows]
        assert shares == pytest.approx([0.64, 0.16, 0.2], abs=0.005)
        positives = [data.y[r].mean() for r in rows]
        assert max(positives) - min(positives) < 0.02


@pytest.mark.parametrize("seed", range(3))
def test_duplicates_stay_on_one_side(seed, folder):
    data = load_paper_set("mammography", folder)

    def duplicates_apart(duplicates):
        seen = [{tuple(x) for x in data.x[r]} for r in split_rows(data, seed, duplicates)]
        return len(seen[0] & seen[1]) + len(seen[0] & seen[2]) + len(seen[1] & seen[2])

    assert duplicates_apart("together") == 0
    assert duplicates_apart("anywhere") > 0


def test_duplicates_of_the_real_mammography_stay_on_one_side(shared_data):
    data = load_paper_set("mammography", shared_data)
    rows = split_rows(data, 0, "together")
    seen = [{tuple(x) for x in data.x[r]} for r in rows]
    assert sum(map(len, seen)) == len(set.union(*seen))
    assert [int(data.y[r].sum()) for r in rows] == [166, 42, 52]


def test_features_are_standardised_by_training_rows(folder):
    parts = make_parts(load_paper_set("mammography", folder))
    assert parts.train.x.mean(0) == pytest.approx(0, abs=1e-5)
    assert parts.train.x.std(0) == pytest.approx(1, abs=1e-5)
    assert np.abs(parts.test.x.mean(0)).max() > 1e-3


@pytest.mark.parametrize(
    ("duplicates", "seed", "known"),
    [
        ("anywhere", 0, "6c010253bb242384"),
        ("anywhere", 3, "4750c12714332bce"),
        ("together", 0, "d6345e8393761d81"),
        ("together", 3, "d50c9d313dab6f51"),
    ],
)
def test_the_split_of_a_seed_stays_what_it_was(duplicates, seed, known):
    """The committed results were made on these rows."""
    parts = split_rows(load_paper_set("synthetic-5"), seed, duplicates)
    rows = b"".join(part.astype("<i8").tobytes() for part in parts)
    assert hashlib.sha256(rows).hexdigest()[:16] == known


def test_splits_differ_by_seed_and_not_by_call():
    data = load_paper_set("synthetic-5")
    assert np.array_equal(split_rows(data, 1)[2], split_rows(data, 1)[2])
    assert not np.array_equal(split_rows(data, 1)[2], split_rows(data, 2)[2])


def test_equitability():
    assert equitability(np.array([0, 1])) == pytest.approx(1)
    assert equitability(np.zeros(3)) == 0


# --- faults -------------------------------------------------------------------------------------


def test_unknown_names_are_refused(folder):
    for name in ("adlut", "../adult", "/etc/passwd"):
        with pytest.raises(ValueError, match="name must be one of"):
            load_paper_set(name, folder)


def test_missing_directory_or_file_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delenv("SOFTSET_DATA", raising=False)
    with pytest.raises(ValueError, match="--data-dir"):
        load_paper_set("adult")
    with pytest.raises(ValueError, match="must be a directory"):
        load_paper_set("adult", tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"adult\.parquet is not in"):
        load_paper_set("adult", tmp_path)


def test_damaged_files_are_refused(tmp_path):
    write_sets(tmp_path)
    path = tmp_path / "mammography.parquet"
    table = pandas.read_parquet(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not a readable parquet file"):
        load_paper_set("mammography", tmp_path)
    for change, words in [
        (table.drop(columns="attr3"), "attr3"),
        (table.iloc[:0], "0 rows"),
        (table.assign(attr2=np.inf), "finite"),
        (table.assign(**{"class": 7}), "got '7'"),
        (table.assign(attr1="x"), "numbers"),
    ]:
        change.to_parquet(path)
        with pytest.raises(ValueError, match=words):
            load_paper_set("mammography", tmp_path)
