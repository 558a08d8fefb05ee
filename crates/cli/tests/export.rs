//! `logdrive export`: what is written is read back with arrow-rs, and has the values that the log has.
#![cfg(feature = "export")]

mod support;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::path::Path;
use support::{run, stdout, text};

const LOG: &str = "\
2026-11-21T08:00:00.000000001Z INFO  main shop::orders a.rs:1 order filled id=1 price=12.5 user=ann code=007
2026-11-21T08:00:01.000000000Z WARN  main shop::net a.rs:2 slow id=-2 price=3 is_new=true
2026-11-21T08:00:02.000000000Z INFO  main shop::orders a.rs:1 order filled id=3 price=0.25 user=\"ann marie\"
";

fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("app.log"), LOG).expect("a file");
    dir
}

fn parquet(path: &Path) -> RecordBatch {
    let file = File::open(path).expect("a file");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file");
    let mut batches = reader.build().expect("a reader");
    let batch = batches.next().expect("a batch").expect("it is read");
    assert!(batches.next().is_none());
    batch
}

fn check(batch: &RecordBatch) {
    let column = |name: &str| {
        batch
            .column_by_name(name)
            .unwrap_or_else(|| panic!("a column {name}"))
    };
    let times = column("_time").as_primitive::<TimestampNanosecondType>();
    assert_eq!(
        *times.data_type(),
        DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
    );
    assert_eq!(times.value(0), 1_795_248_000_000_000_001);
    let ids = column("id").as_primitive::<Int64Type>();
    assert_eq!(ids.values().as_ref(), [1, -2, 3]);
    let prices = column("price").as_primitive::<Float64Type>();
    assert_eq!(prices.values().as_ref(), [12.5, 3.0, 0.25]);
    let users = column("user").as_string::<i32>();
    assert_eq!(
        users.iter().collect::<Vec<_>>(),
        [Some("ann"), None, Some("ann marie")]
    );
    assert_eq!(column("code").as_string::<i32>().value(0), "007");
    let truths = column("is_new").as_boolean();
    assert!(truths.is_null(0) && truths.value(1));
    assert_eq!(column("level").as_string::<i32>().value(1), "WARN");
    assert_eq!(column("message").as_string::<i32>().value(0), "order filled");
}

#[test]
fn parquet_and_arrow_have_the_values_of_the_log() {
    let dir = directory();
    let printed = stdout(
        dir.path(),
        &["export", "*", "app.log", "--parquet", "app.parquet"],
    );
    assert_eq!(
        printed,
        "3 rows; duckdb -c \"SELECT * FROM 'app.parquet' LIMIT 10\"\n"
    );
    check(&parquet(&dir.path().join("app.parquet")));
    let printed = stdout(dir.path(), &["export", "*", "app.log", "--arrow", "app.arrow"]);
    assert!(printed.contains("duckdb.sql"), "{printed}");
    let file = File::open(dir.path().join("app.arrow")).expect("a file");
    let mut reader = arrow_ipc::reader::FileReader::try_new(file, None).expect("an Arrow file");
    check(&reader.next().expect("a batch").expect("it is read"));
}

#[test]
fn rows_of_pipes_are_exported_and_a_file_is_never_written_over() {
    let dir = directory();
    let args = [
        "export",
        "user:* | stats by (level) count() as n, max(price) as most",
        "app.log",
        "--parquet",
        "out.parquet",
    ];
    stdout(dir.path(), &args);
    let batch = parquet(&dir.path().join("out.parquet"));
    let column = |name: &str| batch.column_by_name(name).expect("a column");
    assert_eq!(column("n").as_primitive::<Int64Type>().values().as_ref(), [2]);
    assert_eq!(
        column("most").as_primitive::<Float64Type>().values().as_ref(),
        [12.5]
    );
    let again = run(dir.path(), &args);
    assert_eq!(again.status.code(), Some(1), "{}", text(&again.stderr));
    let piped = run(dir.path(), &["export", "*", "-", "--parquet", "piped.parquet"]);
    assert_eq!(piped.status.code(), Some(2), "{}", text(&piped.stderr));
    assert!(!dir.path().join("piped.parquet").exists());
}
