//! Logs of segments, and deliveries of them.
#![allow(dead_code, reason = "each test program uses a part of it")]

use logdrive_engines::{Delivery, DeliveryCounts, DeliveryOptions};
use logdrive_store::{RowCallsite, RowProcess, RowThread, SegmentWriter};
use logdrive_testkit::{DEADLINE, wait_until};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Callsite, Field, Kind};
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

/// Appends a block with a record for each number.
pub(crate) fn append(path: &Path, numbers: Range<u64>) {
    let callsite = Callsite {
        message: "order {n} filled".to_owned(),
        target: "shop::orders".to_owned(),
        fields: vec![Field {
            name: "n".to_owned(),
            kind: FieldKind::plain(Kind::U64),
            argument: true,
        }],
        ..Callsite::default()
    };
    let process = RowProcess {
        app: "shop".to_owned(),
        pid: 417,
        host: "web-1".to_owned(),
    };
    let row = RowCallsite::new(&callsite, Some(&process)).expect("short names");
    let mut writer = SegmentWriter::new(Vec::new());
    for number in numbers {
        let thread = RowThread { id: 1, name: "main" };
        let time = 1_700_000_000_000_000_000 + number;
        writer
            .record(&row, thread, time, &number.to_le_bytes())
            .expect("memory");
    }
    writer.flush().expect("memory");
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(path)
        .expect("a file");
    file.write_all(writer.file_mut()).expect("written");
}

/// Appends a block with a line of text.
pub(crate) fn append_text(path: &Path, line: &str) {
    let mut writer = SegmentWriter::new(Vec::new());
    writer.line(None, 1, line.as_bytes()).expect("memory");
    writer.flush().expect("memory");
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(path)
        .expect("a file");
    file.write_all(writer.file_mut()).expect("written");
}

/// Options of a delivery of the log `shop.segment` in a directory.
pub(crate) fn options(directory: &Path, to: String) -> DeliveryOptions {
    DeliveryOptions {
        to: to.parse().expect("an address"),
        log: directory.join("shop.segment"),
        directory: directory.to_owned(),
        removes: true,
        written: None,
    }
}

/// Waits until the engine has so many records, and stops.
pub(crate) fn deliver(options: DeliveryOptions, records: u64) -> DeliveryCounts {
    let delivery = Delivery::start(options).expect("started");
    wait_until("all records are delivered", || {
        delivery.counts().records >= records
    });
    delivery.begin_stop(DEADLINE);
    delivery.wait();
    delivery.counts()
}
