"""Workloads: what the documents say of them, and that the same parameters give the same bytes."""

import datetime
import gzip
import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.errors import OutputError, UsageError
from crossroads.lab.workloads import mixed, render, stocks, uniform, write_workload
from crossroads.lab.workloads.mixed import NULL_SHARE
from crossroads.lab.workloads.stocks import trading_days
from crossroads.lab.workloads.workload import BLOCK_ROWS, Stream, generator, zipf_ranks
from crossroads.lab.workloads.write import json_lines
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters

SMALL = {
    "stocks": lambda seed=5: stocks(seed, 3_000, 700, symbols=20),
    "uniform": lambda seed=5: uniform(seed, 3_000, 700),
    "mixed": lambda seed=5: mixed(seed, 3_000, 3_000),
}
workloads = pytest.mark.parametrize("name", SMALL)


# -- every workload ----------------------------------------------------------------------------


@workloads
def test_sizes_and_identities(name):
    workload = SMALL[name]()
    events, subscriptions = workload.events(), workload.subscriptions()
    assert events.num_rows == workload.event_count
    assert subscriptions.num_rows == workload.subscription_count
    ids = subscriptions["id"].to_pylist()
    assert ids == sorted(set(ids))
    identity = list(Schema.from_toml(workload.schema_toml).id)
    assert events.group_by(identity).aggregate([]).num_rows == events.num_rows


@workloads
def test_events_fit_the_schema_and_its_domains(name):
    workload = SMALL[name]()
    schema, events = Schema.from_toml(workload.schema_toml), workload.events()
    assert events.schema == schema.arrow
    for attribute in schema.attributes:
        found = pc.min_max(events[attribute.name]).as_py()
        assert attribute.min is None or attribute.min <= found["min"]
        assert attribute.max is None or found["max"] <= attribute.max


@workloads
def test_same_parameters_same_rows_other_seed_other_rows(name):
    assert SMALL[name]().events() == SMALL[name]().events()
    assert SMALL[name]().subscriptions() == SMALL[name]().subscriptions()
    assert SMALL[name](1).events() != SMALL[name](2).events()
    assert SMALL[name](1).subscriptions() != SMALL[name](2).subscriptions()


@workloads
def test_text_and_typed_columns_are_the_same_subscriptions(name):
    workload = SMALL[name]()
    typed = []
    for template in workload.typed_templates():
        columns = template.columns.combine_chunks()
        parameters = [column.combine_chunks() for column in columns.columns[2:]]
        texts = render(template.text, parameters).to_pylist()
        typed += zip(
            columns["id"].to_pylist(), columns["subscriber"].to_pylist(), texts, strict=True
        )
    rows = [tuple(row.values()) for row in workload.subscriptions().to_pylist()]
    assert sorted(typed) == rows


@workloads
def test_every_filter_parses(name):
    workload = SMALL[name]()
    schema = Schema.from_toml(workload.schema_toml)
    texts = workload.subscriptions()["filter"]
    for text in texts.to_pylist():
        parse(text, schema)
    assert not read_filters(texts, schema).errors


@workloads
def test_template_shares(name):
    many = {"stocks": stocks, "uniform": uniform, "mixed": mixed}[name](3, 10, 40_000)
    drawn = {template.text: template.columns.num_rows for template in many.typed_templates()}
    for template in many.templates:
        expected = template.share * 40_000
        assert abs(drawn[template.text] - expected) <= 5 * np.sqrt(expected) + 1


def test_a_block_is_the_same_whatever_follows_it():
    """Blocks have random streams of their own; the digits of the ids depend on the size."""
    short, long = (uniform(9, size, 10) for size in (BLOCK_ROWS, 2 * BLOCK_ROWS + 7))
    batches = list(long.event_batches())
    assert [batch.num_rows for batch in batches] == [BLOCK_ROWS, BLOCK_ROWS, 7]
    assert batches[0] == next(short.event_batches())
    assert batches[0]["a1"] != batches[1]["a1"]


def test_subscriptions_over_several_blocks():
    workload = stocks(2, 10, BLOCK_ROWS + 1_000)
    assert len(list(workload.subscription_batches())) == 2
    ids = workload.subscriptions()["id"]
    assert pc.count_distinct(ids).as_py() == BLOCK_ROWS + 1_000


# -- stocks ------------------------------------------------------------------------------------


def test_trading_days_are_those_of_the_exchange():
    days = trading_days()
    assert (str(days[0]), str(days[-1]), days.size) == ("1998-01-02", "2002-12-31", 1256)
    assert np.datetime64("2001-09-12") not in days


def test_quotes_are_consistent():
    events = stocks(11, 30_000, 1, symbols=60).events()
    opened, high, low, closed = (events[n].to_numpy() for n in ("open", "high", "low", "close"))
    assert (low <= np.minimum(opened, closed)).all()
    assert (high >= np.maximum(opened, closed)).all()
    assert (low > 0).all()
    for price in (opened, high, low, closed):
        assert (price == np.round(price, 2)).all()
    assert (events["volume"].to_numpy() > 0).all()
    assert set(np.unique(events["date"].to_numpy())) <= set(trading_days())
    symbols = pc.unique(events["symbol"]).to_pylist()
    assert len(symbols) == 60
    assert all(re.fullmatch("[a-z]{3,5}", symbol) for symbol in symbols)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_most_prices_lie_between_10_and_30_dollars(seed):
    """MEGHDOOT 5.1: "most of the stock prices ranged between the values of $10 to $30"."""
    closed = stocks(seed, subscriptions=1).events()["close"].to_numpy()
    assert 0.55 <= ((closed >= 10) & (closed <= 30)).mean() <= 0.75
    assert np.mean(closed) > np.median(closed)  # skewed to the right


def test_volume_is_skewed_and_prices_move_like_real_ones():
    events = stocks(4, 125_600, 1).events().to_pandas()
    per_stock = events.groupby("symbol").volume.median().sort_values()
    assert per_stock.iloc[-10:].sum() > 0.4 * per_stock.sum()
    moves = np.log(events.close).groupby(events.symbol).diff()
    assert 0.025 <= moves.std() <= 0.045


def test_popular_stocks_have_more_subscribers():
    workload = stocks(4, subscriptions=20_000)
    volumes = workload.events().group_by("symbol").aggregate([("volume", "mean")])
    busy = volumes.sort_by([("volume_mean", "descending")])["symbol"].to_pylist()
    low = workload.typed_templates()[1].columns["p1"]
    wanted = {row["values"]: row["counts"] for row in pc.value_counts(low).to_pylist()}
    assert sum(wanted.get(s, 0) for s in busy[:20]) > 2 * sum(wanted.get(s, 0) for s in busy[-20:])


def test_stock_subscriptions_match_a_realistic_share():
    """A threshold on one stock is met on some days of most stocks, not on all and not on none."""
    workload = stocks(6, 60_000, 3_000, symbols=60)
    events = workload.events().to_pandas()
    lows = {symbol: np.sort(rows.low.to_numpy()) for symbol, rows in events.groupby("symbol")}
    columns = workload.typed_templates()[1].columns
    shares = [
        np.searchsorted(lows[symbol], bound, side="right") / lows[symbol].size
        for symbol, bound in zip(columns["p1"].to_pylist(), columns["p2"].to_pylist(), strict=True)
    ]
    assert 0.1 <= np.mean(shares) <= 0.3
    general = workload.typed_templates()[4].columns["p1"].to_numpy()
    volumes = np.sort(events.volume.to_numpy())
    met = 1 - np.searchsorted(volumes, general) / volumes.size
    assert 0.03 <= met.mean() <= 0.1


def test_ranges_of_templates_are_not_empty():
    ranges = stocks(1).typed_templates()[0].columns
    assert pc.all(pc.less_equal(ranges["p2"], ranges["p3"])).as_py()


def test_more_quotes_than_days_are_refused():
    with pytest.raises(UsageError, match="ask for --symbols 797 or more"):
        stocks(0, 1_000_000, 10)
    assert stocks(0, 125_600, 10).events().num_rows == 125_600


def test_many_symbols_stay_distinct():
    events = stocks(1, 20_000, 1, symbols=20_000).events()
    assert pc.max(pc.utf8_length(events["symbol"])).as_py() == 5
    assert events.group_by(["date", "symbol"]).aggregate([]).num_rows == 20_000


# -- uniform -----------------------------------------------------------------------------------


def _widths(workload, attribute):
    columns = workload.typed_templates()[0].columns
    low, high = (columns[f"p{2 * attribute - 1 + end}"].to_numpy() for end in (0, 1))
    return low, high, high - low + 1


def test_widths_lie_between_the_limits_except_at_the_edges():
    low, high, width = _widths(uniform(3, 10, 20_000), 1)
    inside = (low > 0) & (high < 1_000_000)
    assert (low >= 0).all()
    assert (high <= 1_000_000).all()
    assert (width >= 1).all()
    assert width[inside].min() >= 10_000
    assert width.max() <= 30_000
    assert abs(width[inside].mean() - 20_000) < 200


def test_the_documents_own_setting():
    """CHORD: the most restrictive of 4 ranges of 1..3% averages 0.6% of the domain."""
    workload = uniform(3, 10, 20_000, width_min=0)
    narrowest = np.min([_widths(workload, number)[2] for number in (1, 2, 3, 4)], axis=0)
    assert abs(narrowest.mean() / 1_000_000 - 0.006) < 0.0005


def test_selective_attributes_are_narrow_and_gather():
    workload = uniform(3, 10, 20_000, selective=1)
    low, _, width = _widths(workload, 1)
    assert width.max() <= 1_000
    assert np.median(low) < 10_000  # Zipf: half of the centres among the first thousands
    assert _widths(workload, 2)[2].max() > 20_000


def test_uniform_refuses_nonsense():
    for wrong in (
        {"attributes": 0},
        {"attributes": 101},
        {"domain": 0},
        {"domain": 2**31},
        {"selective": 5},
        {"selective": -1},
        {"width_min": 0.2},
        {"width_max": 1.5},
        {"width_min": float("nan")},
        {"events": 0},
        {"subscriptions": -1},
        {"events": 10**13},
        {"seed": -1},
    ):
        with pytest.raises(UsageError):
            uniform(**{"seed": 0, **wrong})


@given(st.integers(1, 50), st.sampled_from([0.0, 0.5, 1.0, 1.7]), st.integers(0, 100))
def test_zipf_ranks_stay_in_range(ranks, exponent, seed):
    drawn = zipf_ranks(generator(seed, Stream.WORLD), ranks, 100, exponent)
    assert drawn.min() >= 0
    assert drawn.max() < ranks


def test_zipf_ranks_follow_the_law():
    drawn = zipf_ranks(generator(0, Stream.WORLD), 1_000, 200_000, 1.0)
    counts = np.bincount(drawn, minlength=1_000)
    assert 8 <= counts[9] / counts[99] <= 12.5  # 1/10 against 1/100


# -- mixed -------------------------------------------------------------------------------------


def test_mixed_has_nulls_everywhere_but_in_the_identity():
    events = mixed(1, 20_000, 1).events()
    assert events["id"].null_count == 0
    for column in events.columns[1:]:
        assert abs(column.null_count / 20_000 - NULL_SHARE) < 0.01


def test_shares_of_patterns():
    templates = mixed(1, 1, 1).templates

    def share(condition):
        return sum(t.share for t in templates if condition(t.text))

    pattern = re.compile(r"contains|RLIKE|LIKE :p3")
    assert share(lambda text: pattern.search(text) and " AND " in text) == pytest.approx(0.10)
    assert share(lambda text: text.startswith("contains(")) == pytest.approx(0.01)
    assert share(lambda text: text.startswith("title RLIKE")) == pytest.approx(0.001)
    for kind in ("startswith", "endswith", " OR ", "NOT ", "BETWEEN", "IN (", "IS NULL"):
        assert share(lambda text, kind=kind: kind in text) > 0


# -- text --------------------------------------------------------------------------------------

ROWS = st.lists(
    st.tuples(
        st.text(st.characters(exclude_characters="'\\", exclude_categories=["Cs"])),
        st.integers(-(2**63), 2**63 - 1),
        st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)),
        st.integers(0, 50_000).map(lambda cents: cents / 100),
    ),
    min_size=1,
)


@given(ROWS)
def test_rendering_is_plain_substitution(rows):
    types = (pa.string(), pa.int64(), pa.date32(), pa.float64())
    columns = [
        pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)
    ]
    texts = render("a = :p1 AND b > :p2 OR c = :p3 AND :p4 < d AND a <> :p1", columns)
    for (a, b, c, d), text in zip(rows, texts.to_pylist(), strict=True):
        number = str(d).removesuffix(".0")
        assert text == f"a = '{a}' AND b > {b} OR c = DATE '{c}' AND {number} < d AND a <> '{a}'"


def test_text_that_would_need_escaping_is_never_rendered():
    with pytest.raises(AssertionError):
        render("a = :p1", [pa.array(["it's"])])


VALUES = st.lists(
    st.fixed_dictionaries(
        {
            "s": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
            "i": st.none() | st.integers(-(2**63), 2**63 - 1),
            "d": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "b": st.none() | st.booleans(),
            "day": st.none() | st.dates(),
        }
    ),
    min_size=1,
)


@given(VALUES)
def test_json_lines_are_the_rows(rows):
    kinds = [("s", pa.string()), ("i", pa.int64()), ("d", pa.float64())]
    schema = pa.schema([*kinds, ("b", pa.bool_()), ("day", pa.date32())])
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    lines = json_lines(batch).decode().split("\n")
    assert lines.pop() == ""
    plain = [{**row, "day": row["day"] and row["day"].isoformat()} for row in rows]
    assert [json.loads(line) for line in lines] == plain


# -- files -------------------------------------------------------------------------------------


def _hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@workloads
@pytest.mark.parametrize(
    ("kind", "packed"),
    [("parquet", False), ("csv", False), ("csv", True), ("jsonl", False), ("jsonl", True)],
)
def test_same_parameters_same_bytes(name, kind, packed, tmp_path):
    for folder in ("a", "b"):
        write_workload(SMALL[name](), tmp_path / folder, format=kind, compress=packed)
    assert _hashes(tmp_path / "a") == _hashes(tmp_path / "b")
    ending = kind + (".gz" if packed else "")
    assert set(_hashes(tmp_path / "a")) == {
        "schema.toml",
        f"events.{ending}",
        f"subscriptions.{ending}",
    }


def test_parquet_is_zstd_in_row_groups_two_readers_can_share(tmp_path):
    written = write_workload(uniform(1, 70_000, 10), tmp_path)
    metadata = pyarrow.parquet.read_metadata(written.events)
    assert metadata.num_row_groups == 3
    assert metadata.row_group(0).column(0).compression == "ZSTD"


def test_null_and_empty_text_differ_in_csv(tmp_path):
    workload = mixed(1, 2_000, 5)
    written = write_workload(workload, tmp_path, format="csv")
    options = pyarrow.csv.ConvertOptions(
        column_types=workload.events().schema,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    assert pyarrow.csv.read_csv(written.events, convert_options=options) == workload.events()


def test_existing_files_are_kept_unless_told_otherwise(tmp_path):
    write_workload(SMALL["uniform"](1), tmp_path)
    before = _hashes(tmp_path)
    with pytest.raises(OutputError, match=r"exists already.*--force"):
        write_workload(SMALL["uniform"](2), tmp_path)
    assert _hashes(tmp_path) == before
    write_workload(SMALL["uniform"](2), tmp_path, overwrite=True)
    assert _hashes(tmp_path) != before


def test_a_failed_run_leaves_what_was_there(tmp_path):
    write_workload(SMALL["uniform"](1), tmp_path)
    before = _hashes(tmp_path)

    def stop(what: str, _rows: int) -> None:
        if what == "subscriptions":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_workload(SMALL["uniform"](2), tmp_path, overwrite=True, advance=stop)
    assert _hashes(tmp_path) == before


def test_impossible_outputs_are_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="cannot write"):
        write_workload(SMALL["uniform"](), tmp_path / "file" / "inside")
    with pytest.raises(UsageError, match="unknown format"):
        write_workload(SMALL["uniform"](), tmp_path, format="xml")
    with pytest.raises(UsageError, match="--gzip"):
        write_workload(SMALL["uniform"](), tmp_path, compress=True)


def test_gzip_holds_the_plain_bytes(tmp_path):
    plain = write_workload(SMALL["stocks"](), tmp_path / "plain", format="csv")
    packed = write_workload(SMALL["stocks"](), tmp_path / "packed", format="csv", compress=True)
    assert gzip.decompress(packed.events.read_bytes()) == plain.events.read_bytes()
