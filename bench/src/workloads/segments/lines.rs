//! Logs that are made: lines with the forms, and about the variety, of those of known programs. The same seed makes the
//! same lines.

use std::fmt::Write;

use logdrive_testkit::Random;

/// Kinds of logs.
pub(super) const KINDS: &[&str] = &["hdfs", "nginx", "service", "own"];

/// Lines of a kind, of so many bytes at least.
pub(super) fn of_kind(kind: &str, bytes: u64) -> String {
    let mut made = Made {
        random: Random::new(1),
        ms: 1_795_000_000_000,
        number: 0,
        blocks: vec![0; 64],
        out: String::with_capacity(bytes as usize + 1_024),
    };
    while (made.out.len() as u64) < bytes {
        made.number += 1;
        let written = match kind {
            "hdfs" => made.hdfs(),
            "nginx" => made.nginx(),
            "service" => made.service(),
            _ => made.own(),
        };
        // A string takes all.
        let _ = written;
    }
    made.out
}

struct Made {
    random: Random,
    ms: u64,
    number: u64,
    /// Blocks of files that are under way.
    blocks: Vec<u64>,
    out: String,
}

impl Made {
    /// Lets time pass; returns hour, minute, second and millisecond.
    fn pass(&mut self, most_ms: u64) -> (u64, u64, u64, u64) {
        self.ms += self.random.below(most_ms);
        let s = self.ms / 1_000;
        (s / 3_600 % 24, s / 60 % 60, s % 60, self.ms % 1_000)
    }

    fn address(&mut self) -> String {
        let (net, host) = (self.random.below(20), self.random.below(200));
        format!("10.25{}.{net}.{host}", self.random.below(2))
    }

    /// A data node of HDFS: blocks come, are told and served, and go.
    fn hdfs(&mut self) -> std::fmt::Result {
        let (hour, minute, second, _) = self.pass(40);
        let place = self.random.below(64) as usize;
        if self.random.one_in(6) {
            self.blocks[place] = self.random.bits() >> 1;
        }
        let block = self.blocks[place].cast_signed();
        let thread = 10 + self.random.below(400);
        let (from, to) = (self.address(), self.address());
        let port = 32_768 + self.random.below(28_000);
        let size = match self.random.below(3) {
            0 => 1 + self.random.below(67_108_864),
            _ => 67_108_864,
        };
        let front = format!("081109 {hour:02}{minute:02}{second:02} {thread} INFO dfs.");
        match self.random.below(11) {
            0 | 1 => writeln!(
                self.out,
                "{front}DataNode$DataXceiver: Receiving block blk_{block} src: /{from}:{port} dest: /{to}:50010"
            ),
            2 | 3 => writeln!(
                self.out,
                "{front}FSNamesystem: BLOCK* NameSystem.addStoredBlock: blockMap updated: {to}:50010 is added to blk_{block} size {size}"
            ),
            4 | 5 => writeln!(
                self.out,
                "{front}DataNode$PacketResponder: PacketResponder {} for block blk_{block} terminating",
                self.random.below(3)
            ),
            6 | 7 => writeln!(
                self.out,
                "{front}DataNode$PacketResponder: Received block blk_{block} of size {size} from /{from}"
            ),
            8 => writeln!(
                self.out,
                "{front}FSNamesystem: BLOCK* NameSystem.allocateBlock: /user/root/rand/_temporary/_task_200811092030_0001_m_{:06}_0/part-{:05}. blk_{block}",
                self.random.below(2_000),
                self.random.below(2_000)
            ),
            9 => writeln!(
                self.out,
                "{front}DataNode$DataXceiver: {to}:50010 Served block blk_{block} to /{from}"
            ),
            _ => writeln!(
                self.out,
                "{front}FSDataset: Deleting block blk_{block} file /mnt/hadoop/dfs/data/current/subdir{}/blk_{block}",
                self.random.below(64)
            ),
        }
    }

    /// Access of a web server in the combined format.
    fn nginx(&mut self) -> std::fmt::Result {
        const AGENTS: [&str; 5] = [
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:132.0) Gecko/20100101 Firefox/132.0",
            "curl/8.11.0",
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
        ];
        let (hour, minute, second, _) = self.pass(30);
        let client = self.random.below(3_000);
        let item = self.random.below(5_000);
        let path = match self.random.below(6) {
            0 => format!("/api/v1/items/{item}"),
            1 => format!("/api/v1/items/{item}/reviews?page={}", self.random.below(9)),
            2 => "/".to_owned(),
            3 => format!("/static/app.{:08x}.js", item % 7 * 0x1234_5677),
            4 => format!("/search?q=item+{}&sort=price", item % 300),
            _ => "/api/v1/cart".to_owned(),
        };
        let status = [200, 200, 200, 200, 304, 404, 302, 500][self.random.below(8) as usize];
        let method = if self.random.one_in(8) { "POST" } else { "GET" };
        let bytes = if status == 304 {
            0
        } else {
            180 + self.random.below(1 + item * 9)
        };
        writeln!(
            self.out,
            "81.2.{}.{} - - [25/Nov/2026:{hour:02}:{minute:02}:{second:02} +0000] \"{method} {path} HTTP/1.1\" {status} {bytes} \"https://shop.example.org/\" \"{}\"",
            client / 250,
            client % 250,
            AGENTS[(client % 5) as usize]
        )
    }

    /// A service that logs JSON.
    fn service(&mut self) -> std::fmt::Result {
        let (hour, minute, second, ms) = self.pass(12);
        let trace = self.random.bits();
        let time = format!("2026-11-25T{hour:02}:{minute:02}:{second:02}.{ms:03}Z");
        let (user, took) = (
            self.random.below(40_000),
            self.random.below(90_000) as f64 / 1_000.0,
        );
        match self.random.below(5) {
            0 | 1 => writeln!(
                self.out,
                "{{\"time\":\"{time}\",\"level\":\"INFO\",\"logger\":\"shop.http\",\"msg\":\"request served\",\"trace_id\":\"{trace:016x}\",\"user_id\":{user},\"path\":\"/orders/{}\",\"status\":200,\"took_ms\":{took}}}",
                self.number
            ),
            2 => writeln!(
                self.out,
                "{{\"time\":\"{time}\",\"level\":\"DEBUG\",\"logger\":\"shop.db\",\"msg\":\"query\",\"trace_id\":\"{trace:016x}\",\"statement\":\"SELECT * FROM orders WHERE user_id = $1 LIMIT {}\",\"rows\":{},\"took_ms\":{took}}}",
                10 + user % 3 * 20,
                user % 50
            ),
            3 => writeln!(
                self.out,
                "{{\"time\":\"{time}\",\"level\":\"INFO\",\"logger\":\"shop.cache\",\"msg\":\"cache miss\",\"key\":\"user:{user}:cart\",\"ttl_s\":300}}"
            ),
            _ => writeln!(
                self.out,
                "{{\"time\":\"{time}\",\"level\":\"WARN\",\"logger\":\"shop.payments\",\"msg\":\"retry of {} after timeout\",\"trace_id\":\"{trace:016x}\",\"attempt\":{},\"order_id\":{}}}",
                ["visa", "paypal", "sepa"][(user % 3) as usize],
                1 + user % 4,
                self.number / 3
            ),
        }
    }

    /// Our own text.
    fn own(&mut self) -> std::fmt::Result {
        let (hour, minute, second, ms) = self.pass(5);
        let ns = ms * 1_000_000 + self.random.below(1_000_000);
        let time = format!("2026-11-25T{hour:02}:{minute:02}:{second:02}.{ns:09}Z");
        let worker = self.random.below(12);
        let number = self.number;
        match self.random.below(4) {
            0 | 1 => writeln!(
                self.out,
                "{time} INFO  worker-{worker} shop::orders orders.rs:417 order filled order_id={number} price={} quantity={} customer=cust-{:03}",
                100.0 + (number % 1_000) as f64 * 0.25,
                number % 900,
                self.random.below(400)
            ),
            2 => writeln!(
                self.out,
                "{time} DEBUG worker-{worker} shop::net net.rs:88 sent {} bytes to 10.0.{}.{}:9092 in {} us",
                self.random.below(9_000),
                worker,
                self.random.below(30),
                self.random.below(2_000)
            ),
            _ => writeln!(
                self.out,
                "{time} TRACE worker-{worker} shop::book book.rs:203 level {} of BTCUSD has {} orders, best {:.2}",
                self.random.below(20),
                self.random.below(500),
                60_000.0 + self.random.below(100_000) as f64 / 100.0
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_makes_whole_lines_that_differ() {
        for kind in KINDS {
            let text = of_kind(kind, 100_000);
            assert!(text.ends_with('\n') && text.len() >= 100_000);
            let distinct: std::collections::HashSet<&str> = text.lines().collect();
            assert!(distinct.len() * 10 > text.lines().count() * 9, "{kind}");
            assert_eq!(of_kind(kind, 100_000), text);
        }
    }
}
