"""Questions of the workload `search` to DuckDB and chdb, over a log of the same records in Parquet.

    search.py make FILE.parquet RECORDS     writes the records (pyarrow, zstd)
    search.py check duckdb|chdb             succeeds where the library is there
    search.py duckdb FILE.parquet SQL TRIALS
    search.py chdb FILE.parquet SQL TRIALS  over a MergeTree table that is made once, beside the file

The last two print the medians of the trials in seconds, of the clock and of the processors; the start of Python is not in them. `{log}` in SQL is the table.
"""

import os
import statistics
import sys
import time

SYMBOLS = ["AAPL", "MSFT", "GOOG", "AMZN", "NVDA", "META", "TSLA", "INTC"]
LEVELS = ["INFO", "DEBUG", "WARN", "ERROR"]
FILES = ["orders.rs", "requests.rs", "net.rs", "payment.rs"]
LINES = [11, 24, 7, 40]
PART_RECORDS = 4_000_000
# Time after which a question is not asked again.
AGAIN_SECONDS = 5


def mixed(numbers):
    import numpy

    mixed = (numbers ^ (numbers >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> numpy.uint64(31))


def part(first, last):
    """The records from one number to another, as the workload makes them."""
    import numpy
    import pyarrow

    numbers = numpy.arange(first, last, dtype=numpy.uint64)
    chance = mixed(numbers)
    kind = numpy.where(
        numbers % 1000 == 7, 3, numpy.where(numbers % 100 == 3, 2, numpy.where(numbers % 10 == 0, 1, 0))
    )

    def words(choices, places):
        indices = pyarrow.array(places.astype(numpy.int32), mask=None)
        return pyarrow.DictionaryArray.from_arrays(indices, choices)

    def of_kind(number, values, data_type):
        return pyarrow.array(values.astype(data_type), mask=kind != number)

    gate = (chance % 64).astype(numpy.int32)
    took = ((chance >> 16) & 0x3FF).astype(numpy.int64)
    messages = numpy.array(["order filled", "request answered", "", "payment failed: card declined"], dtype=object)[kind]
    slow = numpy.flatnonzero(kind == 2)
    messages[slow] = [f"slow answer of gate-{gate[at]} after {took[at]} ms" for at in slow]
    requests = numpy.full(len(numbers), None, dtype=object)
    asked = numpy.flatnonzero(kind == 1)
    ids = mixed(numbers[asked] * numpy.uint64(0x9E3779B97F4A7C15))
    requests[asked] = [f"req-{number:016x}" for number in ids]

    def some(number, array):
        return pyarrow.compute.if_else(pyarrow.array(kind == number), array, pyarrow.scalar(None, array.type))

    columns = {
        "time": pyarrow.array((1_795_000_000_000_000_000 + numbers * 10_000).astype("datetime64[ns]")),
        "level": words(LEVELS, kind),
        "thread": words([f"worker-{number}" for number in range(1, 5)], numbers % 4),
        "module": words(["shop::orders"], numbers * 0),
        "file": words(FILES, kind),
        "line": pyarrow.array(numpy.array(LINES)[kind]),
        "message": pyarrow.array(messages, pyarrow.string()),
        "order_id": pyarrow.array(numbers, mask=kind == 2),
        "qty": of_kind(0, chance % 1000, numpy.uint32),
        "price": of_kind(0, ((chance >> 20) & 0xFFFF) / 100.0, numpy.float64),
        "symbol": some(0, words(SYMBOLS, (chance >> 40) & 7).cast(pyarrow.string())),
        "request": pyarrow.array(requests, pyarrow.string()),
        "peer": some(2, words([f"gate-{number}" for number in range(64)], gate).cast(pyarrow.string())),
        "took_ms": of_kind(2, took, numpy.int64),
        "reason": some(3, words(["card declined"], numbers * 0).cast(pyarrow.string())),
    }
    return pyarrow.table({name: decoded(column) for name, column in columns.items()})


def decoded(column):
    import pyarrow

    return column.cast(pyarrow.string()) if pyarrow.types.is_dictionary(column.type) else column


def make(path, records):
    import numpy
    import pyarrow.compute
    import pyarrow.parquet

    numpy.seterr(over="ignore")
    writer = None
    for first in range(0, records, PART_RECORDS):
        table = part(first, min(first + PART_RECORDS, records))
        writer = writer or pyarrow.parquet.ParquetWriter(
            path, table.schema, compression="zstd", compression_level=3
        )
        writer.write_table(table, row_group_size=122_880)
    writer.close()


def median(ask, trials):
    took, of_processors = [], []
    while len(took) < trials and sum(took) < AGAIN_SECONDS:
        start, processors = time.perf_counter(), time.process_time()
        ask()
        took.append(time.perf_counter() - start)
        of_processors.append(time.process_time() - processors)
    print(statistics.median(took), statistics.median(of_processors))


def duckdb_asked(path, sql, trials):
    import duckdb

    base = duckdb.connect()
    sql = sql.replace("{log}", f"read_parquet('{path}')")
    median(lambda: base.execute(sql).fetchall(), trials)


def chdb_asked(path, sql, trials):
    from chdb import session

    table = path + ".chdb"
    is_there = os.path.exists(table)
    base = session.Session(table)
    if not is_there:
        base.query("CREATE DATABASE IF NOT EXISTS d ENGINE = Atomic")
        base.query(
            "CREATE TABLE d.log ENGINE = MergeTree ORDER BY time SETTINGS allow_nullable_key = 1 "
            f"AS SELECT * FROM file('{path}', Parquet)"
        )
    sql = sql.replace("{log}", "d.log")
    median(lambda: base.query(sql, "CSV"), trials)


def main():
    match sys.argv[1:]:
        case ["make", path, records]:
            make(path, int(records))
        case ["check", library]:
            __import__(library)
        case ["duckdb", path, sql, trials]:
            duckdb_asked(path, sql, int(trials))
        case ["chdb", path, sql, trials]:
            chdb_asked(path, sql, int(trials))
        case _:
            sys.exit(__doc__)


main()
