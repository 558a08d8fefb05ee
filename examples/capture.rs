//! Tests that look at the log. Tests run at once, in threads of one process, and each sees its own records only.
//!
//! Run its tests with `cargo test --example capture`, or run it: `cargo run --example capture`.

use logdrive::testing::capture;

/// The function under test.
fn fill(order_id: u64, stock: u64) -> bool {
    logdrive::debug!(order_id, stock, "looking for stock");
    if stock == 0 {
        logdrive::warn!(order_id, "no stock");
    }
    stock > 0
}

fn main() {
    let log = capture();
    fill(7, 0);
    for line in log.lines() {
        println!("{line}");
    }
    println!("the log was kept in memory");
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive::Level;

    #[test]
    fn an_order_without_stock_warns() {
        let log = capture();
        assert!(!fill(7, 0));
        assert!(log.contains("no stock order_id=7"));
        assert_eq!(log.records().last().map(|record| record.level), Some(Level::Warn));
    }

    #[test]
    fn an_order_with_stock_does_not() {
        let log = capture();
        assert!(fill(8, 3));
        assert!(log.records().iter().all(|record| record.level < Level::Warn));
    }

    #[test]
    fn what_threads_of_a_test_log_is_captured_if_they_are_adopted() {
        let log = capture();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _adopted = log.adopt();
                fill(9, 0);
            });
        });
        assert!(log.contains("no stock order_id=9"));
    }

    #[test]
    fn the_program_runs() {
        main();
    }
}
