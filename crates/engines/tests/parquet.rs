//! Tables of Parquet in object storage, over a real socket.
#![cfg(feature = "parquet")]

#[path = "support/segments.rs"]
mod segments;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, RecordBatch};
use logdrive_engines::Delivery;
use logdrive_testkit::{DEADLINE, wait_until};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use segments::{append, append_text, options};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

/// Reads a request; returns its first line and its body.
fn request(stream: &TcpStream) -> (String, Vec<u8>) {
    stream.set_read_timeout(Some(DEADLINE)).expect("set");
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
        match line.trim() {
            "" => break,
            line if first.is_empty() => line.clone_into(&mut first),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    (first, body)
}

fn table(path: &Path, bytes: &[u8]) -> RecordBatch {
    std::fs::write(path, bytes).expect("written");
    let file = File::open(path).expect("a file");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a table");
    let mut rows = reader.build().expect("a reader");
    let all = rows.next().expect("rows").expect("sound");
    assert!(rows.next().is_none());
    all
}

#[test]
fn each_application_and_hour_has_a_table_with_a_typed_column_for_each_field() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let directory = tempfile::tempdir().expect("a directory");
    let keys = directory.path().join("keys");
    std::fs::write(&keys, "AWS_ACCESS_KEY_ID=a\nAWS_SECRET_ACCESS_KEY=b\n").expect("written");
    let log = directory.path().join("shop.segment");
    append(&log, 0..500);
    for line in [
        r#"{"time":"2026-11-26T02:00:00Z","level":"WARN","message":"one","n":-7,"user":"ann"}"#,
        r#"{"time":"2026-11-26T02:00:01Z","level":"INFO","message":"two","n":8,"user":5,"level_1":true}"#,
    ] {
        append_text(&log, line);
    }
    let to = format!(
        "s3+http://{}/logs/all?form=parquet&every=1&config_file={}",
        listener.local_addr().expect("an address"),
        keys.display()
    );
    let delivery = Delivery::start(options(directory.path(), to)).expect("started");
    let mut found = Vec::new();
    while found.len() < 2 {
        let (mut stream, _) = listener.accept().expect("a connection");
        found.push(request(&stream));
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(answer.as_bytes()).expect("answered");
    }
    wait_until("all are delivered", || delivery.counts().records == 502);
    found.sort();
    let path = directory.path().join("table");
    let [(shop, of_shop), (unknown, of_others)] = &found[..] else {
        panic!("two objects");
    };
    assert!(shop.starts_with("PUT /logs/all/shop/2023-11-14/22/"), "{shop}");
    assert!(
        unknown.starts_with("PUT /logs/all/unknown/2026-11-26/02/"),
        "{unknown}"
    );
    assert!(shop.contains("-0-502.parquet?"), "{shop}");
    let rows = table(&path, of_shop);
    assert_eq!(rows.num_rows(), 500);
    let column = |rows: &RecordBatch, name: &str| rows.column_by_name(name).expect(name).clone();
    let times = column(&rows, "time");
    assert_eq!(
        times.as_primitive::<TimestampNanosecondType>().value(499),
        1_700_000_000_000_000_499
    );
    assert_eq!(column(&rows, "n").as_primitive::<Int64Type>().value(499), 499);
    assert_eq!(column(&rows, "pid").as_primitive::<UInt64Type>().value(0), 417);
    let texts = ["message", "level", "target", "app", "host"];
    let first: Vec<String> = texts
        .iter()
        .map(|name| column(&rows, name).as_string::<i32>().value(0).to_owned())
        .collect();
    assert_eq!(first, ["order 0 filled", "info", "shop::orders", "shop", "web-1"]);
    assert!(
        column(&rows, "id")
            .as_string::<i32>()
            .value(499)
            .ends_with("-499")
    );
    let rows = table(&path, of_others);
    assert_eq!(column(&rows, "n").as_primitive::<Int64Type>().values(), &[-7, 8]);
    // Of a text and a number both are texts.
    let users = column(&rows, "user");
    assert_eq!(
        users.as_string::<i32>().iter().flatten().collect::<Vec<_>>(),
        ["ann", "5"]
    );
    let truths = column(&rows, "level_1");
    assert!(truths.as_boolean().is_null(0) && truths.as_boolean().value(1));
}
